"""Real models that share what a limit leaves: who goes, who waits, and that all are answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine import wire
from engine.model.loader import stored_weight_bytes
from tests.engine.device_rig import Engine
from tests.engine.model.rig import reference_tokens
from tests.fakes import make_delivery, make_work
from tests.tiny_models import tiny_model_path

MIB = 1024**2
FIRST, SECOND, THIRD = MODELS = "tiny-qwen3", "tiny-gemma3", "tiny-mamba"
WEIGHTS = {name: stored_weight_bytes(tiny_model_path(name)) for name in MODELS}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    before_bytes = mx.set_memory_limit(1 << 60)
    engine = Engine(tmp_path)
    yield engine
    engine.prefixes.close()
    mx.set_memory_limit(before_bytes)


def spec(name: str, **changes: object) -> wire.ModelSpec:
    return wire.ModelSpec(name=name, path=str(tiny_model_path(name)), **changes)  # type: ignore[arg-type]


def works(model: str, count: int, *, prompt_tokens: int = 300) -> list[wire.Work]:
    return [
        make_work(
            f"{model} {number}",
            model=model,
            prompt=range(10 + number, 10 + number + prompt_tokens),
            max_tokens=40,
        )
        for number in range(count)
    ]


def test_models_that_no_longer_fit_together_take_turns(engine: Engine) -> None:
    """Both have requests, so that neither is idle when the limit falls."""
    engine.serve(spec(FIRST), spec(SECOND))
    asked = [*works(FIRST, 4), *works(SECOND, 4)]
    engine.transport.send(*map(make_delivery, asked))
    while sum(len(one.scheduler.rows) for one in engine.worker._pool.handles) < len(asked):
        engine.turn()
    limit_bytes = max(WEIGHTS[FIRST], WEIGHTS[SECOND]) + 4 * MIB
    assert limit_bytes < WEIGHTS[FIRST] + WEIGHTS[SECOND]
    engine.set_limit(limit_bytes)
    engine.turn(20)
    engine.finish(*(one.request_id for one in asked))
    assert engine.most_used_bytes <= 1.02 * limit_bytes
    for work in (asked[3], asked[7]):  # the newest gave way
        assert engine.transport.tokens(work.request_id) == reference_tokens(work.model, work)

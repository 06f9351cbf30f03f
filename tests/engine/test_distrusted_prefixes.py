"""What a failed request was filled from, or left behind, is not kept."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine import wire
from tests.engine.test_prefix_reuse import KINDS, Asks, Engine, fresh_answers, prompt_of

__all__ = ["fresh_answers"]


def run_until_it_ends(engine: Engine, prompt: list[int]) -> wire.Finished | wire.Failed:
    engine.start(prompt)
    while not engine.handle.is_idle:
        for _, event in engine.handle.turn():
            if isinstance(event, wire.Finished | wire.Failed):
                end = event
        engine.handle.persist()
    return end


def spoil(engine: Engine) -> None:
    """All that is kept in memory, as a fault of the device would leave it."""
    for node in engine.cache.nodes:
        for kind in node.in_memory:
            kept = engine.cache.memory.get(node.record(kind)).arrays
            kept[:] = [
                one * mx.nan if mx.issubdtype(one.dtype, mx.floating) else one for one in kept
            ]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("further", [[], [11, 12, 13]])
def test_numbers_that_are_none_do_not_outlive_the_request_that_finds_them(
    name: str, further: list[int], tmp_path: Path, fresh_answers: Asks
) -> None:
    engine = Engine(name, directory=tmp_path)
    prompt = [*prompt_of(640), *further]
    engine.answer(prompt_of(640))
    engine.answer(prompt)
    spoil(engine)
    assert isinstance(run_until_it_ends(engine, prompt), wire.Failed)
    assert engine.answer(prompt)[0] == fresh_answers(name, prompt)
    engine.close()
    reopened = Engine(name, directory=tmp_path)
    assert reopened.answer(prompt)[0] == fresh_answers(name, prompt)
    reopened.close()

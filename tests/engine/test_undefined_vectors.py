"""A model whose numbers overflow: a vector or a score that is no number is not delivered."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.core.delivery import VectorDelivery
from engine.core.pacing import TimeLedger
from engine.metrics import Vitals
from engine.model.loader import load
from engine.model.sentence_files import Pooling
from engine.model.vectors import VectorRunner
from engine.vector_handle import VectorHandle
from tests.fakes import FakeMemory
from tests.tiny_models import tiny_model_path

OVERFLOWING = 4001
KINDS: dict[wire.ModelKind, dict[str, Any]] = {
    wire.ModelKind.EMBED: {"pooling": Pooling()},
    wire.ModelKind.RERANK: {"judge": (11, 13)},
}


def handle_of(kind: wire.ModelKind) -> VectorHandle:
    """Of a model with one token whose numbers are none."""
    *_, last = load(tiny_model_path("tiny-qwen3"), casts_to_float32=True)
    model = last.loaded.model
    model.model.embed_tokens.weight[OVERFLOWING] = mx.array(float("nan"))
    return VectorHandle(
        wire.ModelSpec(name="m", path="", kind=kind),
        runner=VectorRunner(model, **KINDS[kind]),
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="e", memory=FakeMemory()),
    )


def delivery_of(request_id: str, *inputs: tuple[int, ...]) -> VectorDelivery:
    work = wire.VectorWork(
        request_id=request_id,
        model="m",
        tenant="t",
        priority=wire.Priority.API,
        submitted_at=0.0,
        accepted_at=0.0,
        inputs=inputs,
    )
    return VectorDelivery(work=work, fence=1, attempt=1, next_seq=0)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_none_end_their_own_request_only(kind: wire.ModelKind) -> None:
    handle = handle_of(kind)
    handle.add(delivery_of("good", (10, 11, 12), (13, 14, 15)))
    handle.add(delivery_of("bad", (10, OVERFLOWING, 12), (10, 11, 12), (10, OVERFLOWING, 13)))
    ends: dict[str, wire.Event] = {}
    while not handle.is_idle:
        for request_id, event in handle.turn():
            assert request_id not in ends, "nothing follows an end"
            if isinstance(event, wire.TERMINAL_EVENTS):
                ends[request_id] = event
    assert isinstance(ends["good"], wire.Finished)
    failed = ends["bad"]
    assert isinstance(failed, wire.Failed) and failed.code is wire.Code.ENGINE_ERROR
    assert "UndefinedNumbers" in failed.detail

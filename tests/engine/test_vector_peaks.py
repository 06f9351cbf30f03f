"""The estimate of a model that makes vectors follows what its bundles take."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx

from engine import wire
from engine.core.delivery import VectorDelivery
from engine.core.pacing import TimeLedger
from engine.estimates import Estimates
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.shelf import DeviceShelf
from engine.vector_handle import VectorHandle
from tests.engine.cache.toys import make_cache
from tests.tiny_encoders import make_encoder

NUM_TEXTS, LENGTH = 4, 120


def bundle(number: int) -> wire.VectorWork:
    return wire.VectorWork(
        request_id=f"r{number}",
        model="m",
        tenant="user:1",
        priority=wire.Priority.API,
        submitted_at=0.0,
        accepted_at=0.0,
        inputs=(tuple(range(10, 10 + LENGTH)),) * NUM_TEXTS,
    )


def test_bundles_teach_an_embedding_model_s_estimate_across_loads(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    spec = wire.ModelSpec(name="m", path=str(tmp_path), kind=wire.ModelKind.EMBED)
    memory = DeviceMemory()
    shelf = DeviceShelf(
        memory,
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="e", memory=memory),
        prefixes=make_cache(),
        estimates=Estimates(None, device=memory.kind),
        casts_to_float32=True,
    )
    *_, handle = shelf.load(spec)
    assert isinstance(handle, VectorHandle)
    highest = 0
    for number in range(12):
        handle.add(VectorDelivery(work=bundle(number), fence=1, attempt=1, next_seq=1))
        before = mx.get_active_memory()
        while not handle.is_idle:
            handle.turn()
        highest = max(highest, memory.peaks.highest_bytes() - before)
    learned = shelf.estimate(spec)
    assert learned is not None
    assert 0.97 * highest <= learned.bundle_bytes(NUM_TEXTS, LENGTH) <= 1.25 * highest

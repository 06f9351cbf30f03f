"""Random requests on a real model near an injected limit that goes up and down meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import mlx.core as mx
import pytest

from engine import wire
from engine.core.pacing import TimeLedger
from engine.estimates import Estimates
from engine.guard import MemoryGuard
from engine.metrics import Vitals
from engine.model import snapshots
from engine.pool import ModelPool
from engine.shelf import DeviceShelf
from engine.worker import Worker
from tests.engine.cache.toys import make_cache
from tests.engine.devices import needs_exact_memory
from tests.fakes import FakeClock, FakeTransport, make_delivery, make_work
from tests.own_memory import OwnMemory
from tests.tiny_models import tiny_model_path

MIB = 1024**2
NUM_REQUESTS = 24
LIMITS = (15, 18)  # MiB, of which the weights are 8


class Engine:
    def __init__(self, limit_bytes: int) -> None:
        self.transport = FakeTransport(FakeClock())
        self.memory = OwnMemory(ceiling_bytes=limit_bytes)
        self.guard = MemoryGuard(ceiling_bytes=limit_bytes, is_explicit=True)
        vitals = Vitals(engine_name="e", memory=self.memory)
        prefixes = make_cache(contents=snapshots.CONTENTS)
        shelf = DeviceShelf(
            self.memory,
            ledger=TimeLedger(),
            vitals=vitals,
            prefixes=prefixes,
            estimates=Estimates(None, device="cpu"),
            casts_to_float32=True,
        )
        self.pool = ModelPool(shelf, self.guard)
        self.worker = Worker(
            transport=self.transport,
            pool=self.pool,
            vitals=vitals,
            memory=self.memory,
            prefixes=prefixes,
        )
        spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")), max_rows=16)
        self.transport.send(wire.Configure(models=(spec,)))


@pytest.fixture(autouse=True)
def measured() -> Iterator[None]:
    mx.clear_cache()
    mx.reset_peak_memory()
    before_bytes = mx.set_memory_limit(1 << 60)
    yield
    mx.set_memory_limit(before_bytes)


@needs_exact_memory
def test_near_the_limit_every_request_ends_with_its_answer() -> None:
    chooser = random.Random(3)
    limit = LIMITS[-1] * MIB
    engine = Engine(limit)
    pending = [
        make_work(
            f"r{number}",
            model="m",
            prompt=[chooser.randrange(10, 4000) for _ in range(chooser.choice([20, 300, 900]))],
            max_tokens=chooser.choice([4, 20, 80]),
        )
        for number in range(NUM_REQUESTS)
    ]
    works = list(pending)
    worst, deadline = 0.0, time.monotonic() + 300
    while len(engine.transport.ends) < NUM_REQUESTS:
        assert time.monotonic() < deadline, "no end"
        while pending and len(works) - len(pending) - len(engine.transport.ends) < 20:
            engine.transport.send(make_delivery(pending.pop()))
        if chooser.random() < 0.02:
            engine.guard.set_limit(chooser.choice(LIMITS) * MIB)
        engine.memory.peaks.forget()
        engine.worker.turn()
        worst = max(worst, engine.memory.read().peak_bytes / limit)
    ends = engine.transport.ends.values()
    assert all(isinstance(one, wire.Finished) for one in ends)
    assert engine.guard.counts["failure"] == 0
    # One layer beside the old one is much of a model that has two.
    assert worst <= 1.1

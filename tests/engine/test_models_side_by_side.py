"""Two real models in one engine, one of which cannot be batched: both answer as if alone."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine import wire
from engine.assembly import build_worker
from engine.config import EngineConfig
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.prefixes import Prefixes
from engine.worker import Worker
from tests.engine.model.rig import random_works, reference_tokens
from tests.fakes import FakeClock, FakeTransport, make_delivery
from tests.tiny_models import tiny_model_path

BATCHED, ONE_AT_A_TIME = "tiny-qwen3", "tiny-llama4"
MOST_TURNS = 5000


class OrderedTransport(FakeTransport):
    """Also remembers whose tokens came after whose."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.spoke: list[str] = []

    def publish(self, events: Sequence[tuple[str, wire.Event]]) -> None:
        super().publish(events)
        self.spoke += [name for name, event in events if isinstance(event, wire.Delta)]

    def num_speeches(self, model: str) -> int:
        """How often somebody else went on; the number of requests when they took turns."""
        return len(list(itertools.groupby(one for one in self.spoke if one.startswith(model))))


@dataclasses.dataclass(frozen=True, slots=True)
class Engine:
    worker: Worker
    transport: OrderedTransport


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    config = EngineConfig(name="e", redis_url="", data_dir=tmp_path)
    memory = DeviceMemory()
    prefixes = Prefixes(config, ceiling_bytes=memory.ceiling_bytes)
    transport = OrderedTransport(FakeClock())
    worker = build_worker(
        config,
        transport=transport,
        memory=memory,
        vitals=Vitals(engine_name="e", memory=memory),
        prefixes=prefixes,
    )
    specs = [
        wire.ModelSpec(name=name, path=str(tiny_model_path(name)), max_rows=4)
        for name in (BATCHED, ONE_AT_A_TIME)
    ]
    transport.send(wire.Configure(models=tuple(specs)))
    yield Engine(worker, transport)
    prefixes.close()


def test_a_model_that_cannot_be_batched_is_served_beside_one_that_can(engine: Engine) -> None:
    works = [
        wire.replace(work, model=model, request_id=f"{model} {work.request_id}")
        for model in (BATCHED, ONE_AT_A_TIME)
        for work in random_works(4, 6)
    ]
    chooser = random.Random(4)
    for work in chooser.sample(works, len(works)):
        engine.transport.send(make_delivery(work))
        for _ in range(chooser.choice([0, 1, 3])):
            engine.worker.turn()
    finish(engine, len(works))

    for work in works:
        expected = reference_tokens(work.model, work)
        assert engine.transport.tokens(work.request_id) == expected, work.request_id
    assert engine.transport.num_speeches(ONE_AT_A_TIME) == 6
    assert engine.transport.num_speeches(BATCHED) > 6


def finish(engine: Engine, num_works: int) -> None:
    for _ in range(MOST_TURNS):
        if len(engine.transport.ends) == num_works:
            return
        engine.worker.turn()
    raise AssertionError("the answers do not come to an end")

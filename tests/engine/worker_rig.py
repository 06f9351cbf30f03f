"""An engine's loop on fakes, driven turn by turn."""

from __future__ import annotations

from functools import partial

from engine import wire
from engine.at_work import AtWork
from engine.guard import MemoryGuard
from engine.metrics import Vitals
from engine.model_folders import ModelFolders
from engine.pool import ModelPool
from engine.stall import StallClock
from engine.worker import Worker
from tests.engine.cache.toys import make_cache
from tests.fakes import (
    FAKE_END_TOKEN_ID,
    FakeClock,
    FakeContext,
    FakeMemory,
    FakeRunner,
    FakeShelf,
    FakeTransport,
    make_delivery,
    make_work,
)

GIB = 1024**3


def num_tokens_said(seed: int) -> int:
    """How long the fake model talks when it is asked (1, 2, 3)."""
    context = FakeContext((1, 2, 3), seed)
    return next(number for number in range(10_000) if context.draw() == FAKE_END_TOKEN_ID)


TALKATIVE_SEED = max(range(100), key=num_tokens_said)


def spec(name: str, **changes: object) -> wire.ModelSpec:
    return wire.ModelSpec(**{"name": name, "path": name, **changes})  # type: ignore[arg-type]


class Engine:
    def __init__(
        self,
        *specs: wire.ModelSpec,
        ceiling_bytes: int = 100 * GIB,
        at_work: AtWork | None = None,
        folders: ModelFolders | None = None,
        runner: type[FakeRunner] = FakeRunner,
    ):
        self.clock = FakeClock()
        self.transport = FakeTransport(self.clock)
        memory = FakeMemory()
        self.vitals = Vitals(
            engine_name="e",
            memory=memory,
            clock=self.clock,
            wall_clock=self.clock,
            stall=StallClock(clock=self.clock, starved_seconds=lambda: 0.0, num_page_ins=lambda: 0),
        )
        self.shelf = FakeShelf(
            self.clock,
            self.vitals,
            make_runner=partial(runner, poison_token_id=66),
            at_work=at_work,
        )
        self.pool = ModelPool(
            self.shelf,
            MemoryGuard(ceiling_bytes=ceiling_bytes),
            at_work=at_work,
            folders=folders,
            clock=self.clock,
        )
        self.prefixes = make_cache()
        self.worker = Worker(
            transport=self.transport,
            pool=self.pool,
            vitals=self.vitals,
            memory=memory,
            prefixes=self.prefixes,
            clock=self.clock,
            wall_clock=self.clock,
        )
        self.memory = memory
        self.transport.send(wire.Configure(models=specs or (spec("fake", max_rows=4),)))

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.worker.turn()

    def ask(self, request_id: str, **changes: object) -> None:
        work = make_work(request_id, sampling=wire.Sampling(seed=TALKATIVE_SEED), **changes)
        self.transport.send(make_delivery(work))

    def run(self, *request_ids: str) -> None:
        for _ in range(500):
            self.turn()
            if all(one in self.transport.ends for one in request_ids):
                return
        raise AssertionError("no end")

    def kinds(self, request_id: str) -> list[str]:
        return [type(one).__name__ for one in self.transport.events[request_id]]

    def failure(self, request_id: str) -> wire.Code:
        end = self.transport.ends[request_id]
        assert isinstance(end, wire.Failed)
        return end.code

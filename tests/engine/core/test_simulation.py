"""Random histories of the whole loop on fakes: the wire's laws hold whatever happens, in any order.

Requests arrive, are cancelled, are taken away, lose their row, make their step fail; the engine
dies and another one goes on; models are unloaded. The fake model's next token is a hash of the
whole context, so that a token lost, doubled or computed from the wrong row shows in every later
one. Both bounds of the pace are held all the while (time_bounds.py).

HEARTH_SIMULATION_SEEDS=200 runs so many histories instead of one.
"""

from __future__ import annotations

import gc
import logging
import os
import random
from collections.abc import Iterator

import pytest

from engine import wire
from engine.core.delivery import Dropped
from engine.core.pacing import Pace
from engine.core.scheduler import Scheduler
from engine.core.step import Outcome, Step
from engine.guard import MemoryGuard
from engine.metrics import Vitals
from engine.pool import ModelPool
from engine.worker import Worker
from tests.engine.cache.toys import make_cache
from tests.engine.core.row_laws import RowLaws
from tests.engine.core.time_bounds import TimeBounds
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

NUM_STEPS = 100_000
NUM_SEEDS = int(os.environ.get("HEARTH_SIMULATION_SEEDS", "1"))
MOST_OPEN = 25
POISON = 96
POISON_LENGTH = 12
TENANTS = ("heavy",) * 6 + ("light", "other", "third", "fourth")
MODELS = tuple(
    wire.ModelSpec(name=name, path=name, max_rows=max_rows, stall_ms=stall_ms, draft_tokens=6)
    for name, max_rows, stall_ms in (("wide", 8, 20), ("narrow", 1, 10))
)


def expected_tokens(work: wire.Work) -> list[int]:
    context, tokens = FakeContext(work.prompt_token_ids, work.sampling.seed), []
    while len(tokens) < work.max_tokens and FAKE_END_TOKEN_ID not in tokens:
        tokens.append(context.draw())
    return tokens


class WatchedRunner(FakeRunner):
    """Whoever keeps the laws hears of every step."""

    def __init__(self, clock: FakeClock, history: History):
        super().__init__(
            clock,
            poison_token_id=POISON,
            poison_length=POISON_LENGTH,
            drafter=random.Random(history.chooser.random()),
        )
        self._history = history

    def run(self, step: Step) -> tuple[Outcome, ...]:
        self._history.begin(self, step)
        outcomes = super().run(step)
        self._history.num_drafted += sum(one.num_drafted for one in outcomes)
        self._history.bounds.watch(step, self.seconds_of(step))
        return outcomes


class History:
    """One random history; `requests` are told apart by what has happened to them."""

    def __init__(self, seed: int):
        self.chooser = random.Random(seed)
        self.clock = FakeClock()
        self.transport = FakeTransport(self.clock)
        self.works: dict[str, wire.Work] = {}
        self.open_ids: list[str] = []
        self.attempts: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.unseen_ids: set[str] = set()  # who is elsewhere
        self.num_dropped = self.num_preempted = self.num_late = self.num_drafted = 0
        self.laws: dict[FakeRunner, RowLaws] = {}  # of every model that was ever loaded
        self.bounds = TimeBounds(self.schedulers, Pace.of(MODELS[0], may_batch=True))
        self.start_engine()

    def start_engine(self) -> None:
        memory = FakeMemory()
        self.vitals = Vitals(
            engine_name="e", memory=memory, clock=self.clock, wall_clock=self.clock
        )
        self.shelf = FakeShelf(
            self.clock, self.vitals, make_runner=lambda clock: WatchedRunner(clock, self)
        )
        pool = ModelPool(self.shelf, MemoryGuard(ceiling_bytes=1 << 40), clock=self.clock)
        self.pool = pool
        self.worker = Worker(
            transport=self.transport,
            pool=pool,
            vitals=self.vitals,
            memory=memory,
            prefixes=make_cache(),
            clock=self.clock,
            wall_clock=self.clock,
        )
        self.transport.inbox.clear()
        self.transport.send(wire.Configure(models=MODELS))

    def schedulers(self) -> list[Scheduler]:
        return [handle.scheduler for handle in self.pool.handles]

    def begin(self, runner: FakeRunner, step: Step) -> None:
        handle = next(one for one, its in self.shelf.runners.items() if its is runner)
        if runner not in self.laws:
            self.laws[runner] = RowLaws(handle.scheduler, self.bounds.broken)
        lives = filter(None, map(handle.get_live, self.open_ids))
        self.laws[runner].begin(
            step,
            held=runner.held_row_ids,
            living=sorted((one.sequence for one in lives), key=lambda one: one.arrived_at),
            now=self.clock.now,
        )

    def arrive(self) -> None:
        if len(self.open_ids) > MOST_OPEN:
            return
        request_id = f"r{len(self.works)}"
        is_poison = self.chooser.random() < 0.04
        length = self.chooser.choice([1, 2, 3, 8, 20, 60])
        prompt = [self.chooser.randrange(1, 90) for _ in range(length)]
        work = make_work(
            request_id,
            model=self.chooser.choice(["wide", "wide", "wide", "narrow"]),
            tenant=self.chooser.choice(TENANTS),
            priority=self.chooser.choice(list(wire.Priority)),
            prompt=[POISON, *prompt] if is_poison else prompt,
            max_tokens=self.chooser.choice([1, 2, 5, 20, 40]),
            sampling=wire.Sampling(seed=self.chooser.randrange(1000)),
            deadline_at=self.clock.now + 0.3 if self.chooser.random() < 0.1 else None,
        )
        self.works[request_id] = work
        self.open_ids.append(request_id)
        self.deliver(request_id)

    def deliver(self, request_id: str, *, is_suspect: bool = False) -> None:
        attempt = self.attempts[request_id] = self.attempts.get(request_id, 0) + 1
        self.open_ids.remove(request_id)
        self.open_ids.append(request_id)  # in the order of their deliveries
        self.unseen_ids.discard(request_id)
        delivered = self.transport.tokens(request_id)
        work = self.works[request_id]
        self.transport.send(
            make_delivery(work, delivered=delivered, attempt=attempt, is_suspect=is_suspect)
        )

    def cancel(self) -> None:
        if self.open_ids:
            request_id = self.chooser.choice(self.open_ids)
            self.cancelled.add(request_id)
            self.transport.send(wire.Cancel(request_id=request_id))

    def lose_lease(self) -> None:
        """Another engine takes the request and gives it back."""
        if self.transport.inbox or not self.open_ids:
            return
        request_id = self.chooser.choice(self.open_ids)
        self.num_dropped += 1
        before = len(self.transport.events[request_id])
        self.transport.send(Dropped(request_id=request_id))
        self.unseen_ids.add(request_id)
        for _ in range(3):
            self.turn()
        assert len(self.transport.events[request_id]) == before, "a lost lease is silent"
        self.deliver_again(request_id)

    def deliver_again(self, request_id: str) -> None:
        self.deliver(request_id, is_suspect=self.chooser.random() < 0.5)
        if request_id in self.cancelled:
            self.transport.send(wire.Cancel(request_id=request_id))

    def die(self) -> None:
        """kill -9: another engine gets everything that has no end."""
        self.start_engine()
        for request_id in list(self.open_ids):
            self.deliver_again(request_id)

    def preempt(self) -> None:
        """A row must give way; its request goes on from its tokens."""
        handle = self.chooser.choice(self.pool.handles or [None])
        if handle is not None and handle.scheduler.rows:
            sequence = self.chooser.choice(handle.scheduler.rows)
            handle.scheduler.preempt(sequence)
            self.laws[self.shelf.runners[handle]].preempted(sequence)
            self.num_preempted += 1

    def unload(self) -> None:
        name = self.chooser.choice(MODELS).name
        self.transport.send(wire.UnloadModel(name=name))

    def run(self, num_steps: int) -> None:
        happenings = [
            (0.25, self.arrive),
            (0.03, self.cancel),
            (0.01, self.lose_lease),
            (0.02, self.preempt),
            (0.001, self.die),
            (0.001, self.unload),
        ]
        while self.bounds.num_steps < num_steps:
            for likelihood, happen in happenings:
                if self.chooser.random() < likelihood:
                    happen()
            self.turn()

    def turn(self) -> None:
        began_at = self.clock.now
        self.worker.turn()
        for request_id in self.open_ids:
            self.check_deadline(request_id, began_at)
        self.open_ids = [one for one in self.open_ids if one not in self.transport.ends]

    def check_deadline(self, request_id: str, began_at: float) -> None:
        """Nobody fails before it, nor waits or computes in a turn that begins after it."""
        deadline_at, end = self.works[request_id].deadline_at, self.transport.ends.get(request_id)
        if isinstance(end, wire.Failed) and end.code is wire.Code.DEADLINE_EXCEEDED:
            assert deadline_at is not None and deadline_at < self.clock.now
            self.num_late += 1
        elif end is None and deadline_at is not None and request_id not in self.unseen_ids:
            assert began_at <= deadline_at, f"{request_id} goes on after its deadline"

    def finish(self) -> None:
        for _ in range(6000):
            if not self.open_ids and self.pool.is_idle:
                return
            self.turn()
        raise AssertionError(f"silence: {self.open_ids}")

    def check(self, request_id: str) -> None:
        work, events = self.works[request_id], self.transport.events[request_id]
        assert not any(isinstance(one, (wire.Accepted, wire.Refused)) for one in events)
        assert sum(isinstance(one, wire.Started) for one in events) <= 1
        tokens, expected = self.transport.tokens(request_id), expected_tokens(work)
        assert tokens == expected[: len(tokens)], "tokens are those of an undisturbed run"
        texts = [f"{token_id} " for token_id in tokens if token_id != FAKE_END_TOKEN_ID]
        assert self.transport.text(request_id) == "".join(texts)
        self.check_end(work, events[-1], tokens, expected)

    def check_end(
        self, work: wire.Work, end: wire.Event, tokens: list[int], expected: list[int]
    ) -> None:
        if isinstance(end, wire.Failed) and end.code is wire.Code.DEADLINE_EXCEEDED:
            return  # check_deadline has seen it
        if isinstance(end, wire.Failed):
            assert end.code is wire.Code.ENGINE_ERROR and work.prompt_token_ids[0] == POISON
            return
        assert isinstance(end, wire.Finished)
        assert end.usage.completion_tokens == len(tokens)
        if end.reason is wire.FinishReason.CANCELLED:
            assert work.request_id in self.cancelled
            return
        assert tokens == expected
        is_stop = tokens[-1] == FAKE_END_TOKEN_ID
        assert end.reason is (wire.FinishReason.STOP if is_stop else wire.FinishReason.LENGTH)


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Thousands of failures are told to nobody, and what was imported is no garbage."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    yield
    gc.unfreeze()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_every_law_holds_in_a_random_history(seed: int) -> None:
    history = History(seed)
    history.run(NUM_STEPS)
    history.finish()
    for request_id in history.works:
        history.check(request_id)
    assert not history.bounds.broken, history.bounds.broken[:9]
    assert len(history.works) > 5_000
    assert min(history.num_dropped, history.num_preempted, history.bounds.num_checked) > 300
    assert min(history.num_late, history.num_drafted) > 100
    for choices in ("num_passed", "num_guests", "num_read"):
        assert sum(getattr(one, choices) for one in history.laws.values()) > 300
    assert not any(one.held_row_ids for one in history.shelf.runners.values())
    ends = {type(end) for end in history.transport.ends.values()}
    assert wire.Failed in ends and wire.Finished in ends


def test_an_idle_engine_is_not_stalled() -> None:
    history = History(1)
    history.run(300)
    history.finish()
    for _ in range(5):
        history.worker.turn()
    for _ in range(60):
        history.clock.now += 60
        assert history.vitals.status().stalled_seconds == 0.0

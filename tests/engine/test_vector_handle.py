"""Turns of a model that gives vectors, on a fake computer: bounds, order, cancels, failures."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Sequence
from typing import Any

from engine import wire
from engine.at_work import AtWork
from engine.core.cost import CostModel
from engine.core.delivery import VectorDelivery
from engine.core.pacing import Pace, TimeLedger
from engine.metrics import Vitals
from engine.sizing.estimate import Estimate
from engine.vector_handle import VectorHandle
from tests.fakes import FakeClock, FakeMemory

POISON = 66
PACE = Pace(max_rows=8, stall_seconds=0.1, decode_share=0.5)
SECONDS_PER_TOKEN = 0.001


@dataclasses.dataclass
class Long:
    row: tuple[int, ...]
    num_computed: int = 0

    @property
    def num_left(self) -> int:
        return len(self.row) - self.num_computed


class FakeComputer:
    """A row's result is its sum. It takes time, and breaks on the poison."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.runs: list[int] = []  # tokens of each call, padding included
        self.failure: BaseException = RuntimeError("poison")

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        self._take(len(rows) * max(map(len, rows)))
        if any(POISON in row for row in rows):
            raise self.failure
        return [sum(row) for row in rows]

    def begin(self, row: tuple[int, ...]) -> Long:
        return Long(row)

    def go_on(self, long: Long, num_tokens: int) -> list[Any] | None:
        self._take(num_tokens)
        long.num_computed += num_tokens
        return None if long.num_left else [sum(long.row)]

    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event:
        return wire.Scored(place=place, score=result)

    def _take(self, num_tokens: int) -> None:
        self.runs.append(num_tokens)
        self._clock.now += num_tokens * SECONDS_PER_TOKEN


class Rig:
    def __init__(
        self,
        *,
        computer: type[FakeComputer] = FakeComputer,
        estimate: Estimate | None = None,
        cost: CostModel | None = None,
        at_work: AtWork | None = None,
        **changes: Any,
    ) -> None:
        self.clock = FakeClock()
        self.computer = computer(self.clock)
        self.ledger = TimeLedger()
        vitals = Vitals(
            engine_name="e", memory=FakeMemory(), clock=self.clock, wall_clock=self.clock
        )
        self.handle = VectorHandle(
            wire.ModelSpec(name="m", path="m", kind=wire.ModelKind.EMBED, **changes),
            runner=self.computer,
            estimate=estimate,
            cost=cost,
            at_work=at_work,
            ledger=self.ledger,
            vitals=vitals,
            clock=self.clock,
            wall_clock=self.clock,
        )
        self.events: dict[str, list[wire.Event]] = {}

    def add(
        self,
        request_id: str,
        *inputs: tuple[int, ...],
        priority: wire.Priority = wire.Priority.API,
        **changes: Any,
    ) -> None:
        work = wire.VectorWork(
            request_id=request_id,
            model="m",
            tenant="user:1",
            priority=priority,
            submitted_at=self.clock(),
            accepted_at=self.clock(),
            inputs=inputs,
            **changes,
        )
        self.note(self.handle.add(VectorDelivery(work=work, fence=1, attempt=1, next_seq=1)))

    def turn(self, *, others: Pace | None = None) -> None:
        self.note(self.handle.turn(others=others))

    def finish(self, *, others: Pace | None = None) -> None:
        for _ in range(1000):
            if self.handle.is_idle:
                return
            self.turn(others=others)
            self.ledger.forgive()
        raise AssertionError("it never ended")

    def note(self, events: list[tuple[str, wire.Event]]) -> None:
        for request_id, event in events:
            self.events.setdefault(request_id, []).append(event)

    def scores(self, request_id: str) -> dict[int, float]:
        scored = (one for one in self.events[request_id] if isinstance(one, wire.Scored))
        return {one.place: one.score for one in scored}


def test_every_input_is_answered_at_its_place_and_counted() -> None:
    rig = Rig()
    rig.add("a", (1,) * 300, (2,), (3,) * 40)
    rig.finish()
    assert rig.scores("a") == {0: 300, 1: 2, 2: 120}
    assert isinstance(rig.events["a"][0], wire.Started)
    last = rig.events["a"][-1]
    assert isinstance(last, wire.Finished)
    assert last.usage.prompt_tokens == 341
    assert rig.handle.num_live == 0


def test_inputs_of_several_requests_share_a_turn() -> None:
    rig = Rig()
    for name in ("a", "b", "c"):
        rig.add(name, (1, 2, 3), (4, 5, 6))
    rig.finish()
    assert len(rig.computer.runs) == 1


def test_a_person_goes_before_a_stored_batch_that_has_less_left() -> None:
    rig = Rig(max_rows=1)
    rig.add("batch", (1,) * 30, priority=wire.Priority.BATCH)
    rig.add("person", (2,) * 40, (2,) * 40, priority=wire.Priority.INTERACTIVE)
    rig.turn()
    rig.turn()
    assert "batch" not in rig.events
    assert rig.scores("person") == {0: 80, 1: 80}


def test_who_decodes_waits_no_longer_than_a_stall() -> None:
    rig = Rig(stall_ms=100)
    rig.add("a", *[(1,) * 30] * 40, (2,) * 2000)
    rig.finish(others=PACE)
    learned = rig.computer.runs[5:]
    assert max(learned) * SECONDS_PER_TOKEN <= 0.12
    assert rig.scores("a")[40] == 4000


def test_the_stall_of_those_who_decode_counts() -> None:
    rig = Rig(stall_ms=60_000)
    rig.add("a", *[(1,) * 30] * 40)
    rig.finish(others=PACE)
    assert max(rig.computer.runs[5:]) * SECONDS_PER_TOKEN <= 0.12


def test_who_decodes_is_paid_back_before_the_next_turn() -> None:
    rig = Rig(stall_ms=100)
    rig.add("a", *[(1,) * 50] * 10)
    rig.turn(others=PACE)
    num_runs = len(rig.computer.runs)
    rig.turn(others=PACE)
    assert len(rig.computer.runs) == num_runs
    while rig.ledger.owes_decode:
        rig.ledger.book_decode(0.01)
    rig.turn(others=PACE)
    assert len(rig.computer.runs) == num_runs + 1


def test_a_short_request_passes_a_large_one() -> None:
    rig = Rig(stall_ms=100)
    rig.add("large", *[(1,) * 50] * 50)
    rig.turn()
    rig.add("small", (1, 2))
    rig.turn()
    assert isinstance(rig.events["small"][-1], wire.Finished)


def test_a_short_request_passes_a_long_row() -> None:
    rig = Rig(stall_ms=10)
    rig.add("long", (1,) * 5000)
    rig.turn()
    rig.add("small", (1, 2))
    rig.turn()
    rig.turn()
    assert isinstance(rig.events["small"][-1], wire.Finished)
    rig.finish()
    assert rig.scores("long") == {0: 5000}


def test_a_long_row_that_was_begun_is_not_computed_beside_itself() -> None:
    """Before anything was measured a turn has few tokens, soon afterwards it has many."""
    rig = Rig()
    rig.add("a", *[(1,) * 500] * 3)
    rig.finish()
    assert [type(one) for one in rig.events["a"]].count(wire.Scored) == 3


def test_a_cancel_ends_it_at_once() -> None:
    rig = Rig(stall_ms=10)
    rig.add("a", (1,) * 5000)
    rig.turn()
    rig.note(rig.handle.cancel("a"))
    last = rig.events["a"][-1]
    assert isinstance(last, wire.Finished)
    assert last.reason == wire.FinishReason.CANCELLED
    assert last.usage.prompt_tokens == 5000
    assert rig.handle.is_idle


def test_nobody_pays_for_texts_that_nobody_began_to_read() -> None:
    rig = Rig(stall_ms=10)
    rig.add("a", (1,) * 5000)
    rig.note(rig.handle.cancel("a"))
    last = rig.events["a"][-1]
    assert isinstance(last, wire.Finished) and last.usage.prompt_tokens == 0


def test_a_failure_ends_only_the_request_that_caused_it() -> None:
    rig = Rig()
    rig.add("good", (1, 2), (3, 4))
    rig.add("bad", (POISON, 1))
    rig.finish()
    assert rig.scores("good") == {0: 3, 1: 7}
    assert isinstance(rig.events["good"][-1], wire.Finished)
    assert isinstance(rig.events["bad"][-1], wire.Failed)


def test_a_passed_deadline_ends_it() -> None:
    rig = Rig()
    rig.add("a", (1, 2), deadline_at=rig.clock() - 1)
    rig.turn()
    last = rig.events["a"][-1]
    assert isinstance(last, wire.Failed)
    assert last.code == wire.Code.DEADLINE_EXCEEDED


def test_who_was_cancelled_in_line_leaves_it_and_its_weights_can_go() -> None:
    rig = Rig()
    rig.ledger.book_slice(1.0, share=0.5)  # running rows of another model are owed
    rig.add("a", (1, 2, 3))
    rig.turn(others=PACE)
    rig.note(rig.handle.cancel("a"))
    computer = weakref.ref(rig.computer)
    del rig.handle, rig.computer
    gc.collect()
    assert computer() is None

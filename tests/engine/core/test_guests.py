"""A row beyond the model's number: who gets one, who does not, and what it costs the others."""

from __future__ import annotations

import collections
import random

import pytest

from engine import wire
from engine.core.guests import most_guests
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from tests.fakes import FakeClock, FakeRunner, make_work

API, BATCH, INTERACTIVE = wire.Priority.API, wire.Priority.BATCH, wire.Priority.INTERACTIVE


class House:
    """A scheduler of few rows with its runner."""

    def __init__(self, max_rows: int = 4) -> None:
        self.clock = FakeClock()
        self.runner = FakeRunner(self.clock)
        pace = Pace(max_rows=max_rows, stall_seconds=0.05, decode_share=0.5)
        self.scheduler = Scheduler(pace, TimeLedger())
        self.num_asked: collections.Counter[str] = collections.Counter()

    def ask(self, tenant: str, *, max_tokens: int = 50, priority: wire.Priority = API) -> Sequence:
        self.num_asked[tenant] += 1
        work = make_work(
            f"{tenant} {self.num_asked[tenant]}",
            tenant=tenant,
            priority=priority,
            max_tokens=max_tokens,
        )
        sequence = Sequence(work, delivered_token_ids=(), arrived_at=self.clock.now)
        self.scheduler.add(sequence)
        return sequence

    def ask_often(self, tenant: str, times: int, **fields: object) -> list[Sequence]:
        return [self.ask(tenant, **fields) for _ in range(times)]  # type: ignore[arg-type]

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.scheduler.admit()
            for outcome in self.runner.run(self.scheduler.schedule(now=self.clock.now)):
                for sequence, _ in self.scheduler.update(outcome):
                    if sequence.num_output_tokens == sequence.max_tokens:
                        self.scheduler.finish(sequence)

    @property
    def tenants(self) -> list[str]:
        """Of the rows, in order."""
        return sorted(one.tenant for one in self.scheduler.rows)


def test_who_has_no_row_gets_one_while_another_has_several() -> None:
    house = House()
    house.ask_often("heavy", 6)
    house.turn(9)
    house.ask("light")
    house.turn()
    assert house.tenants == ["heavy"] * 4 + ["light"]


def test_a_guest_s_row_counts_when_the_next_one_ends() -> None:
    house = House()
    first, *_ = house.ask_often("heavy", 6)
    house.turn(9)
    house.ask("light")
    house.turn()
    house.scheduler.finish(first)
    house.turn()
    assert house.tenants == ["heavy"] * 3 + ["light"]


def test_there_are_few_guests_and_each_is_somebody_else() -> None:
    house = House(max_rows=8)
    house.ask_often("heavy", 20)
    house.turn(9)
    house.ask_often("light", 2)
    house.ask_often("second", 1)
    house.ask_often("third", 1)
    house.turn(2)
    assert most_guests(8) == 2
    assert house.tenants == ["heavy"] * 8 + ["light", "second"]


@pytest.mark.parametrize(
    "tenants", [["one"], ["one", "two", "three", "four"]], ids=["alone", "one row each"]
)
def test_nobody_is_a_guest_where_nobody_has_several_rows_more(tenants: list[str]) -> None:
    house = House()
    for tenant in tenants * (4 // len(tenants)):
        house.ask(tenant)
    house.turn(9)
    house.ask(tenants[0] if len(tenants) == 1 else "five")
    house.turn(9)
    assert len(house.tenants) == 4


def test_a_model_of_one_row_has_no_guests() -> None:
    house = House(max_rows=1)
    house.ask("heavy")
    house.turn(9)
    house.ask("light")
    house.turn(9)
    assert house.tenants == ["heavy"]


@pytest.mark.parametrize(
    ("guest", "host", "is_let_in"),
    [
        (INTERACTIVE, BATCH, True),
        (API, API, True),
        (BATCH, BATCH, True),
        (BATCH, INTERACTIVE, False),
        (API, INTERACTIVE, False),
    ],
)
def test_a_lower_class_waits(guest: wire.Priority, host: wire.Priority, is_let_in: bool) -> None:
    house = House()
    house.ask_often("heavy", 4, priority=host)
    house.turn(9)
    house.ask("light", priority=guest)
    house.turn()
    assert ("light" in house.tenants) == is_let_in


def test_who_is_refused_for_memory_is_no_guest() -> None:
    house = House()
    house.ask_often("heavy", 4)
    house.turn(9)
    light = house.ask("light")
    assert house.scheduler.admit(lambda _: False) == []
    assert house.scheduler.admit() == [light]


def test_a_failed_step_forgets_who_had_rows() -> None:
    house = House()
    heavy = house.ask_often("heavy", 4)
    house.turn(9)
    house.scheduler.restart(house.scheduler.schedule(now=house.clock.now))
    house.runner.reset()
    for one in heavy:
        house.scheduler.finish(one)
    for tenant in ("one", "two", "three", "heavy", "five"):
        house.ask(tenant)
    house.turn()
    assert house.tenants == ["heavy", "one", "three", "two"]


@pytest.mark.parametrize("seed", range(3))
def test_ten_times_the_load_of_another_keeps_nobody_waiting(seed: int) -> None:
    """The light one's turns until it has a row, and the rows while it has or has none."""
    chooser, house = random.Random(seed), House()
    heavy: list[Sequence] = []
    turns_to_row, num_rows = [], []

    def turn() -> None:
        heavy[:] = [one for one in heavy if one.status is not Status.FINISHED]
        heavy.extend(house.ask_often("heavy", 10 - len(heavy), max_tokens=40))
        house.turn()
        num_rows.append(len(house.tenants))

    for _ in range(60):
        light = house.ask("light", max_tokens=chooser.randrange(5, 20))
        asked_at = len(num_rows)
        while light.row_id is None:
            turn()
        turns_to_row.append(len(num_rows) - asked_at)
        while light.status is not Status.FINISHED:
            turn()
        for _ in range(chooser.randrange(40)):
            turn()
    assert max(turns_to_row) <= 2
    assert max(num_rows) == 5
    assert sum(num_rows) / len(num_rows) > 3.9

"""Rows that are taken away, or lost with a step that failed: who is next, and who is to blame."""

from __future__ import annotations

from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence
from engine.core.step import Step
from tests.fakes import FakeClock, FakeGrammar, FakeRunner, make_work


class House:
    """Two rows; everybody talks for long."""

    def __init__(self) -> None:
        pace = Pace(max_rows=2, stall_seconds=0.05, decode_share=0.5)
        self.clock = FakeClock()
        self.runner = FakeRunner(self.clock)
        self.scheduler = Scheduler(pace, TimeLedger())

    def ask(self, request_id: str, *, prompt_tokens: int = 4) -> Sequence:
        prompt = range(1, prompt_tokens + 1)
        work = make_work(request_id, tenant=request_id, prompt=prompt, max_tokens=500)
        sequence = Sequence(work, delivered_token_ids=(), arrived_at=self.clock.now)
        self.scheduler.add(sequence)
        return sequence

    def turn(self) -> Step:
        self.scheduler.admit()
        step = self.scheduler.schedule(now=self.clock.now)
        for outcome in self.runner.run(step):
            self.scheduler.update(outcome)
        return step

    def turn_until_decoding(self, num_rows: int) -> None:
        while len(self.turn().decodes) < num_rows:
            pass


def test_who_lost_a_row_gets_the_next_one() -> None:
    house = House()
    first = house.ask("first")
    house.ask("second")
    house.turn_until_decoding(2)
    house.ask("third")
    house.scheduler.preempt(first)
    assert house.scheduler.admit()[0] is first


def test_who_lost_a_row_goes_before_a_younger_one_that_lost_its_own_later() -> None:
    """Memory takes rows at several times, and a small one may come between."""
    house = House()
    house.ask("oldest")
    older = house.ask("older")
    house.turn_until_decoding(2)
    house.clock.now += 1
    younger = house.ask("younger")
    house.scheduler.preempt(older)
    assert house.scheduler.admit(lambda one: one is younger) == [younger]
    house.scheduler.preempt(younger)
    assert house.scheduler.admit() == [older]


def test_who_was_computed_by_the_step_before_may_be_to_blame_as_well() -> None:
    """The device works ahead: what a step breaks may show when the next one is submitted."""
    house = House()
    innocent = house.ask("innocent")
    house.turn_until_decoding(1)
    culprit = house.ask("culprit", prompt_tokens=6000)
    while not house.turn().slices:
        pass
    failed = house.scheduler.schedule(now=house.clock.now)
    assert failed.decodes == (innocent.row_id,)
    assert house.scheduler.restart(failed) is None
    assert house.scheduler.admit() == [culprit]  # in the order of the names, one by one
    again = house.scheduler.schedule(now=house.clock.now)
    assert house.scheduler.restart(again) is culprit


def test_who_lost_a_row_with_anothers_step_goes_before_who_waits() -> None:
    house = House()
    culprit = house.ask("culprit")
    house.turn_until_decoding(1)
    innocent = house.ask("innocent", prompt_tokens=1)
    innocent.grammar = FakeGrammar()  # its row is in no step yet
    waiting = house.ask("waiting")
    house.turn()
    failed = house.scheduler.schedule(now=house.clock.now)
    assert failed.decodes == (culprit.row_id,)
    assert house.scheduler.restart(failed) is culprit
    house.scheduler.finish(culprit)
    assert house.scheduler.admit() == [innocent, waiting]

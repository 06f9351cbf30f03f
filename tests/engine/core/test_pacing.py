"""The ledger: running rows get the time that they are owed, no more and no less."""

from __future__ import annotations

import dataclasses

import pytest

from engine.core.pacing import TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.step import Outcome, Slice, Step
from tests.engine.core.scheduler_bench import PACE, Bench
from tests.fakes import FakeClock, FakeRunner

SLICE = Step(slices=(Slice(row_ids=(1,), start_tokens=0, token_ids=((1, 2),)),))
DECODE = Step(decodes=(1,))


def test_rows_that_have_ended_are_owed_nothing() -> None:
    ledger = TimeLedger()
    ledger.book_slice(1.0, share=0.9)
    bench = Bench()
    bench.scheduler = Scheduler(PACE, ledger)
    bench.add("alone", prompt_tokens=40)
    assert bench.turn().slices and not ledger.owes_decode


@pytest.mark.parametrize(
    ("num_before", "num_after", "owed_steps", "owes"),
    [(0, 1, 1, False), (9, 0, 2, True), (9, 2, 2, False)],
)
def test_a_step_pays_for_slices_before_it(
    num_before: int, num_after: int, owed_steps: int, owes: bool
) -> None:
    ledger = TimeLedger()
    for _ in range(num_before):
        ledger.book_decode(0.01)
    ledger.book_slice(owed_steps * 0.01, share=0.5)
    for _ in range(num_after):
        ledger.book_decode(0.01)
    assert ledger.owes_decode == owes


def test_what_the_device_has_not_finished_counts_as_usual() -> None:
    ledger = TimeLedger()
    ledger.book_slice(0.01, share=0.5)
    ledger.note_in_flight(SLICE, 1)
    assert ledger.owes_decode
    ledger.note_in_flight(DECODE, 1)
    assert not ledger.owes_decode
    ledger.note_in_flight(DECODE, -1)
    ledger.book_decode(0.002)
    assert ledger.owes_decode, "it has taken less than was thought"


class Uneven(FakeRunner):
    """A step that follows a slice takes as long as some twenty others."""

    was_slice = False

    def seconds_of(self, step: Step) -> float:
        return super().seconds_of(step) + (0.02 if step.decodes and self.was_slice else 0.0)

    def run(self, step: Step) -> tuple[Outcome, ...]:
        outcomes = super().run(step)
        self.was_slice = bool(step.slices)
        return outcomes


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_time_is_shared_by_the_clock(share: float) -> None:
    """Not by what steps take as a rule."""
    bench = Bench(dataclasses.replace(PACE, decode_share=share), Uneven)
    bench.add("row", prompt_tokens=20, max_tokens=100_000)
    bench.add("first", prompt_tokens=1_000, max_tokens=1)
    while "first" not in bench.drawn_at:
        bench.turn()
    bench.add("long", prompt_tokens=6_000, max_tokens=1)
    decodes = slices = 0.0
    while "long" not in bench.drawn_at:
        before = bench.clock.now
        step = bench.turn()
        seconds = bench.clock.now - before
        slices += seconds if step.slices else 0.0
        decodes += seconds if step.decodes else 0.0
    assert decodes / (decodes + slices) == pytest.approx(share, abs=0.02)


class WarmingRunner(FakeRunner):
    """The more tokens its first slices have, the less time they take."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._first_seconds = [0.04, 0.035, 0.03]

    def seconds_of(self, step: Step) -> float:
        if not step.slices:
            return super().seconds_of(step)
        if self._first_seconds:
            return self._first_seconds.pop(0)
        return 0.02 + sum(one.num_tokens for one in step.slices) * 2e-5


def test_how_long_a_prompt_is_is_not_guessed_from_its_first_slices() -> None:
    bench = Bench(PACE, WarmingRunner)
    bench.add("victim", prompt_tokens=1, max_tokens=100_000)
    bench.add("long", prompt_tokens=6000)
    while "long" not in bench.drawn_at:
        bench.turn()
        if "victim" in bench.drawn_at:
            assert bench.scheduler.decode_share == PACE.decode_share

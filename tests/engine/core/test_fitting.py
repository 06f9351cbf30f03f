"""Rows and slices that memory has no room for wait; nobody's tokens change by it."""

from __future__ import annotations

import random

from engine.core.limits import ALL_FITS, Fitting
from engine.core.pacing import TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence
from tests.engine.core.scheduler_bench import PACE, Bench
from tests.fakes import FakeClock, FakeRunner, make_work


def test_a_row_joins_when_others_have_left_where_memory_has_no_room_for_both() -> None:
    bench = Bench()
    bench.fitting = Fitting(most_joins=0)
    for name in ("first", "second", "third"):
        bench.add(name, prompt_tokens=10, max_tokens=8)
    bench.run()
    assert bench.drawn_at["second"][0] > bench.drawn_at["first"][-1]
    assert bench.drawn_at["third"][0] > bench.drawn_at["second"][-1]


def test_a_slice_that_does_not_fit_waits_until_nobody_decodes() -> None:
    bench = Bench()
    bench.add("first", prompt_tokens=10, max_tokens=8)
    while "first" not in bench.drawn_at:
        bench.turn()
    bench.fitting = Fitting(may_slice=False)
    bench.add("second", prompt_tokens=500)
    bench.run()
    assert bench.drawn_at["second"][0] > bench.drawn_at["first"][-1]
    between = [one for one in bench.steps if one.slices and one.slices[0].row_ids == (1,)]
    assert between and bench.steps.index(between[0]) > 7


def test_everybody_ends_with_the_same_tokens_whatever_does_not_fit_meanwhile() -> None:
    def outputs(chooser: random.Random | None) -> list[list[int]]:
        bench = Bench()
        for number in range(12):
            bench.add(f"r{number}", prompt_tokens=1 + 40 * number, max_tokens=1 + number)
        while not bench.scheduler.is_idle:
            if chooser is not None:
                most_joins, may_slice = chooser.randrange(3), chooser.random() < 0.5
                bench.fitting = Fitting(most_joins=most_joins, may_slice=may_slice)
            bench.turn()
        return [list(one.output_token_ids) for one in bench.sequences.values()]

    undisturbed = outputs(None)
    assert [len(one) for one in undisturbed] == list(range(1, 13))
    for seed in range(20):
        assert outputs(random.Random(seed)) == undisturbed


def test_a_model_that_may_not_read_now_keeps_no_other_from_reading() -> None:
    """Both stand in one line while somebody decodes."""
    clock, ledger = FakeClock(), TimeLedger()
    full, other = Scheduler(PACE, ledger), Scheduler(PACE, ledger)
    runners = {one: FakeRunner(clock) for one in (full, other)}
    drawn: list[str] = []

    def add(scheduler: Scheduler, name: str, prompt_tokens: int, max_tokens: int) -> None:
        work = make_work(name, prompt=range(1, prompt_tokens + 1), max_tokens=max_tokens)
        scheduler.add(Sequence(work, delivered_token_ids=(), arrived_at=clock.now))

    def turn(scheduler: Scheduler, fitting: Fitting = ALL_FITS) -> None:
        scheduler.admit()
        others = PACE if full.is_decoding and scheduler is other else None
        step = scheduler.schedule(now=clock.now, others=others, fitting=fitting)
        for outcome in runners[scheduler].run(step):
            for sequence, _ in scheduler.update(outcome):
                drawn.append(sequence.request_id)
                if sequence.num_output_tokens == sequence.max_tokens:
                    scheduler.finish(sequence)

    add(full, "decodes", 5, 20_000)
    for _ in range(20):
        turn(full)
    add(full, "long", 5000, 2)
    while not (ledger.owes_decode and full.has_prompts):
        turn(full)
    while ledger.stand_in_line(other):
        turn(full)
    add(other, "short", 300, 2)
    for _ in range(400):
        turn(full, Fitting(may_slice=False))
        turn(other)
    assert "short" in drawn

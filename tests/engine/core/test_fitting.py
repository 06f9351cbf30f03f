"""Rows and slices that memory has no room for wait; nobody's tokens change by it."""

from __future__ import annotations

import random

from engine.core.limits import ALL_FITS, Fitting
from engine.core.pacing import TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.step import Outcome, Step
from tests.engine.core.row_laws import RowLaws
from tests.engine.core.scheduler_bench import PACE, Bench
from tests.fakes import FakeClock, FakeRunner, make_work


def no_room_for(*request_ids: str) -> Fitting:
    return Fitting(no_room_for=frozenset(request_ids))


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
    bench.fitting = no_room_for("second")
    bench.add("second", prompt_tokens=500)
    bench.run()
    assert bench.drawn_at["second"][0] > bench.drawn_at["first"][-1]
    between = [one for one in bench.steps if one.slices and one.slices[0].row_ids == (1,)]
    assert between and bench.steps.index(between[0]) > 7


def test_a_short_prompt_is_read_while_a_long_one_of_its_model_waits_for_memory() -> None:
    bench = Bench()
    bench.add("decodes", prompt_tokens=20, max_tokens=200)
    while "decodes" not in bench.drawn_at:
        bench.turn()
    bench.add("long", prompt_tokens=5000)
    bench.fitting = no_room_for("long")
    bench.add("short", prompt_tokens=50)
    bench.run()
    assert bench.drawn_at["short"][0] < bench.drawn_at["decodes"][20]
    assert bench.drawn_at["long"][0] > bench.drawn_at["decodes"][-1]


def test_a_prompt_that_waits_for_memory_is_not_passed_for_ever() -> None:
    """Who comes later than twice its reading leaves the memory to it."""
    bench = Bench()
    bench.fitting = no_room_for("long")
    bench.add("decodes", prompt_tokens=10, max_tokens=20)
    long = bench.add("long", prompt_tokens=500)
    newcomers = 0
    while "long" not in bench.drawn_at:
        if len(bench.scheduler.rows) < 4:
            newcomers += 1
            bench.add(f"newcomer {newcomers}", prompt_tokens=20, max_tokens=20)
        bench.turn()
        assert bench.clock.now < long.arrived_at + 2.0
    read_before = [one for one in bench.drawn_at if one.startswith("newcomer")]
    assert len(read_before) > 3


class LawfulBench(Bench):
    """Holds each of its steps against the laws; memory has no room for the slices of a few."""

    def __init__(self, seed: int) -> None:
        super().__init__(runner=LawfulRunner)
        self.chooser = random.Random(seed)
        self.broken: list[str] = []
        self.laws = RowLaws(self.scheduler, self.broken)
        self.runner.bench = self

    def turn(self) -> Step:
        if self.chooser.random() < 0.1:
            waiting = self.chooser.sample(list(self.sequences), len(self.sequences) // 8)
            self.fitting = no_room_for(*waiting)
        return super().turn()


class LawfulRunner(FakeRunner):
    bench: LawfulBench

    def run(self, step: Step) -> tuple[Outcome, ...]:
        bench = self.bench
        living = [one for one in bench.sequences.values() if one.status is not Status.FINISHED]
        no_room_for = bench.fitting.no_room_for
        held, now = self.held_row_ids, bench.clock.now
        bench.laws.begin(step, held=held, living=living, now=now, no_room_for=no_room_for)
        return super().run(step)


def test_the_laws_of_reading_hold_whoever_waits_for_memory() -> None:
    num_read = num_held_back = 0
    for seed in range(10):
        bench = LawfulBench(seed)
        bench.add("teaches what reading takes", prompt_tokens=3000)
        bench.run()
        for number in range(60):
            prompt_tokens = bench.chooser.choice([10, 100, 1000])
            bench.add(f"r{number}", prompt_tokens=prompt_tokens, max_tokens=20)
            while number > 6 and bench.chooser.random() < 0.9 and not bench.scheduler.is_idle:
                bench.turn()
        bench.run()
        assert not bench.broken, bench.broken[:9]
        num_read += bench.laws.num_read
        num_held_back += bench.laws.num_held_back
    assert min(num_read, num_held_back) > 100


def test_everybody_ends_with_the_same_tokens_whatever_does_not_fit_meanwhile() -> None:
    def outputs(chooser: random.Random | None) -> list[list[int]]:
        bench = Bench()
        for number in range(12):
            bench.add(f"r{number}", prompt_tokens=1 + 40 * number, max_tokens=1 + number)
        while not bench.scheduler.is_idle:
            if chooser is not None:
                waiting = chooser.sample(list(bench.sequences), chooser.randrange(12))
                bench.fitting = Fitting(
                    most_joins=chooser.randrange(3), no_room_for=frozenset(waiting)
                )
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
        turn(full, no_room_for("long"))
        turn(other)
    assert "short" in drawn

"""Who has no row yet does not wait for what others' prompts owe to running rows."""

from __future__ import annotations

import dataclasses

import pytest

from engine import wire
from engine.core.step import Outcome, Step
from tests.engine.core.scheduler_bench import PACE, Bench
from tests.engine.core.time_bounds import TimeBounds
from tests.fakes import FakeRunner

HEAVY, LIGHT = "user:heavy", "user:light"


class ToldAtOnce(FakeRunner):
    """A processor: it computes a slice while that is submitted."""

    def run(self, step: Step) -> tuple[Outcome, ...]:
        outcomes = super().run(step)
        if not step.slices:
            return outcomes
        computed, self._before = self._before, None
        assert computed is not None
        return (*outcomes, computed)


RUNNERS = pytest.mark.parametrize("runner", [FakeRunner, ToldAtOnce])


def busy_bench(runner: type[FakeRunner], *, drawing_share: float | None = None) -> Bench:
    """Three rows of one person decode, and are owed for the prompt of the fourth."""
    bench = Bench(PACE, runner, drawing_share=drawing_share)
    for number in range(3):
        bench.add(f"row {number}", prompt_tokens=40, max_tokens=100_000, tenant=HEAVY)
    for _ in range(100):
        bench.turn()
    bench.add("fourth", prompt_tokens=60, max_tokens=100_000, tenant=HEAVY)
    while bench.sequences["fourth"].slice_tokens_left:
        bench.turn()
    bench.turn()
    bench.turn()
    return bench


def steps_until_read(bench: Bench, request_id: str) -> int:
    """How many go before the first one that reads its prompt."""
    for number in range(1000):
        step = bench.turn()
        row_id = bench.sequences[request_id].row_id
        if any(row_id in one.row_ids for one in step.slices):
            return number
    raise AssertionError("its prompt is never read")


@RUNNERS
def test_the_first_request_of_somebody_is_read_at_once(runner: type[FakeRunner]) -> None:
    bench = busy_bench(runner)
    bench.add("light", prompt_tokens=30, tenant=LIGHT)
    assert steps_until_read(bench, "light") == 0


@RUNNERS
@pytest.mark.parametrize(("drawing_share", "num_before"), [(0.01, 0), (None, 1)])
def test_a_row_that_has_its_first_token_joins_after_it(
    runner: type[FakeRunner], drawing_share: float | None, num_before: int
) -> None:
    """A prompt that was read has it where slices draw; else it is a step away from it."""
    bench = Bench(PACE, runner, drawing_share=drawing_share)
    bench.add("row", prompt_tokens=40, max_tokens=100_000, tenant=HEAVY)
    for _ in range(200):
        bench.turn()
    bench.add("second", prompt_tokens=30, max_tokens=100_000, tenant=HEAVY)
    assert steps_until_read(bench, "second") == 0
    if runner is FakeRunner:  # it has to hear first what the slice took
        bench.turn()
        num_before = 0
    bench.add("light", prompt_tokens=30, tenant=LIGHT)
    assert steps_until_read(bench, "light") == num_before


@RUNNERS
def test_who_has_rows_pays_for_the_last_prompt_first(runner: type[FakeRunner]) -> None:
    bench = busy_bench(runner)
    bench.add("fifth", prompt_tokens=30, tenant=HEAVY)
    assert steps_until_read(bench, "fifth") > 10


@RUNNERS
def test_the_first_request_does_not_take_others_along(runner: type[FakeRunner]) -> None:
    bench = busy_bench(runner)
    bench.add("fifth", prompt_tokens=16, tenant=HEAVY)
    bench.add("light", prompt_tokens=30, tenant=LIGHT)
    assert steps_until_read(bench, "light") == 0
    assert not bench.sequences["fifth"].computed_tokens


@RUNNERS
def test_a_long_prompt_waits_whoever_s_it_is(runner: type[FakeRunner]) -> None:
    """It is read in pieces, and rows get their share before each, the last one too."""
    bench = busy_bench(runner)
    bench.add("light", prompt_tokens=150, tenant=LIGHT)
    assert steps_until_read(bench, "light") > 10
    assert steps_until_read(bench, "light") > 40  # a stall of steps that take 1 ms
    assert bench.sequences["light"].slice_tokens_left == 0


@RUNNERS
def test_behind_a_long_slice_rows_come_first_whatever_they_are_owed(
    runner: type[FakeRunner],
) -> None:
    """A small share owes little for it; yet they have waited a stall."""
    bench = busy_bench(runner)
    bench.scheduler.pace = dataclasses.replace(PACE, decode_share=0.2)
    bench.add("long", prompt_tokens=1_000, tenant=HEAVY)
    for _ in range(3):
        steps_until_read(bench, "long")
        bench.add("light", prompt_tokens=30, max_tokens=1, tenant=LIGHT)
        assert 0 < steps_until_read(bench, "light") < 3
        while "light" not in bench.drawn_at:
            bench.turn()
        del bench.drawn_at["light"]


@RUNNERS
@pytest.mark.parametrize("decode_share", [0.2, 0.5])
@pytest.mark.parametrize("together", [1, 10])
@pytest.mark.parametrize("drawing_share", [None, 0.01])
def test_many_newcomers_take_no_more_than_their_share(
    runner: type[FakeRunner], decode_share: float, together: int, drawing_share: float | None
) -> None:
    """Each of them is somebody else. Rows wait no longer than a stall, and get their share but for
    a stall that they are owed."""
    pace = dataclasses.replace(PACE, decode_share=decode_share)
    bench = busy_bench(runner, drawing_share=drawing_share)
    bench.scheduler.pace = pace
    bounds = TimeBounds(lambda: [bench.scheduler], pace)
    pause = longest_pause = 0.0
    for number in range(3000):
        if number % (3 * together) == 0:
            for one in range(together):
                name = f"user:{number + one}"
                bench.add(name, prompt_tokens=30, max_tokens=2, tenant=name)
        before = bench.clock.now
        step = bench.turn()
        bounds.watch(step, bench.clock.now - before)
        pause = 0.0 if step.decodes else pause + bench.clock.now - before
        longest_pause = max(longest_pause, pause)
    assert bounds.num_checked > 1000 and not bounds.broken
    assert longest_pause <= PACE.stall_seconds * 1.05


def bench_of_long_prompts(**fields: str) -> Bench:
    """Eight prompts of one person, four seconds each; the cost of reading is known."""
    bench = Bench(PACE)
    for number in range(12):
        bench.add(f"known {number}", prompt_tokens=20 + 30 * number, max_tokens=1)
        bench.run()
    for number in range(8):
        bench.add(f"long {number}", prompt_tokens=8000, max_tokens=1, tenant=HEAVY, **fields)
    return bench


@pytest.mark.parametrize("seconds", [1, 12, 16, 24])
@pytest.mark.parametrize("tenant", [LIGHT, HEAVY])
def test_nobody_waits_for_all_that_others_have_sent_before_while_no_row_decodes(
    seconds: int, tenant: str
) -> None:
    """Nor for one's own batches with a chat."""
    bench = bench_of_long_prompts(priority=wire.Priority.BATCH)
    began_at = bench.clock.now
    while bench.clock.now - began_at < seconds:
        bench.turn()
    bench.add("chat", prompt_tokens=20, max_tokens=2, tenant=tenant)
    while "chat" not in bench.drawn_at:
        bench.turn()
    assert bench.first_token_seconds("chat") < 6 * PACE.stall_seconds


@pytest.mark.parametrize("decode_share", [0.0, 0.5])
def test_nobody_waits_for_ever_for_newcomers_while_no_row_decodes(decode_share: float) -> None:
    """Each of them is somebody else, has a prompt of half a stall and asks for one token."""
    bench = Bench(dataclasses.replace(PACE, decode_share=decode_share))
    bench.add("known", prompt_tokens=400, max_tokens=1)
    bench.run()
    bench.add("long", prompt_tokens=8000, max_tokens=1, tenant=HEAVY)
    for number in range(4000):
        name = f"user:{number}"
        if len(bench.scheduler.rows) < 3:
            bench.add(name, prompt_tokens=50, max_tokens=1, tenant=name)
        bench.turn()
        if "long" in bench.drawn_at:
            break
    assert bench.first_token_seconds("long") < 8 * 4.0


def test_short_prompts_of_many_people_fill_the_batch_at_once() -> None:
    """None of them passes another: all together they take longer than a stall."""
    bench = Bench(PACE)
    bench.add("known", prompt_tokens=400, max_tokens=1)
    bench.run()
    for number in range(4):
        bench.add(f"user:{number}", prompt_tokens=80, tenant=f"user:{number}")
    step = bench.turn()
    assert sum(len(one.row_ids) for one in step.slices) == 4

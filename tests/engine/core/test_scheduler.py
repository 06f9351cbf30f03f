"""The scheduler against a fake device whose time is known."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest

from engine import wire
from engine.core.cost import FIRST_USE_SECONDS
from engine.core.pacing import Pace
from engine.core.step import Slice, Step
from tests.engine.core.scheduler_bench import PACE, Bench
from tests.fakes import FakeRunner


def test_every_row_gets_all_its_tokens() -> None:
    bench = Bench()
    for number in range(30):
        bench.add(f"r{number}", prompt_tokens=1 + 7 * number, max_tokens=1 + number % 5)
    bench.run()
    for sequence in bench.sequences.values():
        assert sequence.num_output_tokens == sequence.max_tokens


def test_a_row_that_needs_no_further_token_is_not_computed_again() -> None:
    bench = Bench()
    bench.add("a", prompt_tokens=5, max_tokens=3)
    bench.run()
    assert sum(len(step.decodes) for step in bench.steps) == 3


def test_cancel_frees_the_row_before_the_next_step() -> None:
    bench = Bench()
    first = bench.add("a", prompt_tokens=5, max_tokens=100)
    bench.add("b", prompt_tokens=5, max_tokens=100)
    for _ in range(6):
        bench.turn()
    row_id = first.row_id
    bench.scheduler.finish(first)
    step = bench.turn()
    assert row_id in step.leaves and row_id not in step.decodes and len(step.decodes) == 1


def test_cancel_in_prefill_stops_at_the_next_slice() -> None:
    bench = Bench(dataclasses.replace(PACE, most_slice_tokens=64))
    sequence = bench.add("long", prompt_tokens=6000)
    bench.turn()
    bench.scheduler.finish(sequence)
    step = bench.turn()
    assert not step.computed_row_ids and len(step.leaves) == 1
    bench.run()


def test_new_work_is_seen_at_every_turn() -> None:
    bench = Bench()
    bench.add("a", prompt_tokens=5, max_tokens=100)
    for _ in range(10):
        bench.turn()
    bench.add("b", prompt_tokens=5)
    assert bench.turn().slices


def test_rows_never_exceed_max_rows() -> None:
    bench = Bench(dataclasses.replace(PACE, max_rows=3))
    for number in range(10):
        bench.add(f"r{number}", prompt_tokens=20)
    bench.run()
    assert max(len(step.decodes) for step in bench.steps) == 3


def test_one_row_at_a_time_where_max_rows_is_one() -> None:
    bench = Bench(dataclasses.replace(PACE, max_rows=1))
    for number in range(4):
        bench.add(f"r{number}", prompt_tokens=20)
    bench.run()
    assert {len(step.decodes) for step in bench.steps} <= {0, 1}


class StrayingRunner(FakeRunner):
    """Every slice takes a fifth more or less than it should."""

    def seconds_of(self, step: Step) -> float:
        tokens = str([(one.row_ids, one.start_tokens, one.token_ids) for one in step.slices])
        strays = random.Random(tokens).choice([0.8, 1.2]) if step.slices else 1.0
        return strays * super().seconds_of(step)


def settled(pace: Pace = PACE, runner: type[FakeRunner] = FakeRunner) -> Bench:
    """A bench whose cost model has seen some slices."""
    bench = Bench(pace, runner)
    for number in range(12):
        bench.add(f"warm{number}", prompt_tokens=20 + 30 * number, max_tokens=1)
        bench.run()
    return bench


@pytest.mark.parametrize(("runner", "factor"), [(FakeRunner, 1.1), (StrayingRunner, 1.15)])
def test_a_long_prompt_stalls_running_rows_no_longer_than_allowed(
    runner: type[FakeRunner], factor: float
) -> None:
    bench = settled(runner=runner)
    bench.add("victim", prompt_tokens=5, max_tokens=4000)
    for _ in range(10):
        bench.turn()
    bench.add("long", prompt_tokens=6000)
    while "long" not in bench.drawn_at:
        bench.turn()
    times = bench.drawn_at["victim"]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert max(gaps) <= factor * PACE.stall_seconds


def test_one_tiny_slice_does_not_make_bold() -> None:
    """What a turn of hundreds of tokens takes is not known yet."""
    bench = Bench()
    bench.add("victim", prompt_tokens=4, max_tokens=400)
    for _ in range(100):
        bench.turn()
    for number in range(12):
        bench.add(f"short{number}", prompt_tokens=60, max_tokens=1)
    while not (step := bench.turn()).slices:
        pass
    assert sum(one.num_tokens for one in step.slices) <= 64


class AttentiveRunner(FakeRunner):
    """A prompt's tokens take the longer the more stand before them, and hardly anything else."""

    def seconds_of(self, step: Step) -> float:
        if not step.slices:
            return super().seconds_of(step)
        return 0.001 + sum(one.num_tokens * one.mean_context * 2e-7 for one in step.slices)


@pytest.mark.parametrize(("runner", "seconds_alone"), [(FakeRunner, 3.0), (AttentiveRunner, 3.6)])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_running_rows_keep_their_share_and_prompts_get_the_rest(
    share: float, runner: type[FakeRunner], seconds_alone: float
) -> None:
    bench = settled(dataclasses.replace(PACE, decode_share=share), runner)
    bench.add("victim", prompt_tokens=5, max_tokens=100_000)
    for _ in range(10):
        bench.turn()
    bench.add("long", prompt_tokens=6000)
    before, since = len(bench.drawn_at["victim"]), bench.clock.now
    while "long" not in bench.drawn_at:
        bench.turn()
    seconds = bench.clock.now - since
    kept = (len(bench.drawn_at["victim"]) - before) * 0.001 / seconds
    assert kept == pytest.approx(share, abs=0.06)
    assert seconds <= seconds_alone / (1 - share) * 1.2


def test_the_end_of_a_long_prompt_pays_for_its_time_as_its_beginning_did() -> None:
    """It is no short prompt, though one slice completes it."""
    bench = settled()
    bench.add("victim", prompt_tokens=5, max_tokens=100_000)
    for _ in range(10):
        bench.turn()
    before, since = len(bench.drawn_at["victim"]), bench.clock.now
    for name in (f"long-{number}" for number in range(20)):
        bench.add(name, prompt_tokens=250, max_tokens=1)
        while name not in bench.drawn_at:
            bench.turn()
    kept = (len(bench.drawn_at["victim"]) - before) * 0.001 / (bench.clock.now - since)
    assert kept == pytest.approx(PACE.decode_share, abs=0.06)


def test_prompts_that_one_slice_completes_fill_the_batch_first() -> None:
    """Of sixteen equal requests at once the last hardly waits for the first one's answer."""
    prompts_only = seconds_until_all_began(settled(dataclasses.replace(PACE, decode_share=0.0)))
    assert seconds_until_all_began(settled(PACE)) <= 1.45 * prompts_only


def seconds_until_all_began(bench: Bench) -> float:
    names = [f"equal-{number}" for number in range(16)]
    since = bench.clock.now
    for name in names:
        bench.add(name, prompt_tokens=40, max_tokens=100_000)
    while not all(name in bench.drawn_at for name in names):
        bench.turn()
    return bench.clock.now - since


def test_without_a_share_prompts_go_first() -> None:
    bench = settled(dataclasses.replace(PACE, decode_share=0.0))
    bench.add("victim", prompt_tokens=5, max_tokens=10_000)
    for _ in range(10):
        bench.turn()
    bench.add("long", prompt_tokens=6000)
    since = bench.clock.now
    while "long" not in bench.drawn_at:
        bench.turn()
    assert bench.clock.now - since <= 1.1 * 3.0


def test_short_prompts_are_not_held_up_by_a_long_one() -> None:
    bench = settled()
    bench.add("long", prompt_tokens=6000)
    for number in range(7):
        bench.add(f"short{number}", prompt_tokens=20)
    bench.run()
    shorts = [bench.first_token_seconds(f"short{number}") for number in range(7)]
    assert max(shorts) < bench.first_token_seconds("long") / 10


def test_a_long_prompt_is_not_starved_by_short_ones() -> None:
    bench = settled()
    bench.add("long", prompt_tokens=1000)
    for number in range(3000):
        bench.add(f"short{number}", prompt_tokens=100, max_tokens=1)
        bench.turn()
        if "long" in bench.drawn_at:
            break
    # Alone it takes half a second; the arrivals alone would fill the device.
    assert bench.first_token_seconds("long") < 4.0


@pytest.mark.parametrize("seed", range(2))
def test_nobody_is_passed_by_who_comes_later_than_twice_the_own_reading(seed: int) -> None:
    """But for those of about the same length who share the forward of somebody who may pass."""
    bench, chooser = settled(dataclasses.replace(PACE, max_rows=1000)), random.Random(seed)
    lengths = {f"r{number}": chooser.choice([20, 100, 400, 2000]) for number in range(300)}
    for request_id, length in lengths.items():
        bench.add(request_id, prompt_tokens=length, max_tokens=1)
        for _ in range(chooser.choice([0, 1, 2])):
            bench.turn()
    bench.run()
    slices = (one for step in bench.steps for one in step.slices)
    guests = {row_id for one in slices for row_id in one.row_ids[1:]}
    num_passes = 0
    for one, other in itertools.permutations(map(bench.sequences.get, lengths), 2):
        later_by = other.arrived_at - one.arrived_at
        is_before = bench.drawn_at[other.request_id] < bench.drawn_at[one.request_id]
        if later_by > 0 and is_before and other.row_id not in guests:
            num_passes += 1
            length = lengths[one.request_id]
            assert later_by < 2.1 * bench.scheduler.cost.predict(length)
    assert num_passes > 300, "short ones pass long ones"


def expected_seconds(bench: Bench, step: Step) -> float:
    cost = bench.scheduler.cost
    return sum(cost.predict(one.width, start=one.start_tokens) for one in step.slices)


def test_who_comes_during_a_single_prompt_waits_for_a_short_piece_of_it() -> None:
    bench = settled()
    bench.scheduler.pace = dataclasses.replace(PACE, stall_seconds=0.25)
    bench.add("long", prompt_tokens=6000)
    step = bench.turn()
    assert 0.09 < expected_seconds(bench, step) < 0.3

    bench.add("short", prompt_tokens=20)
    while not (turn := bench.turn()).slices:
        pass  # the piece is still being computed
    assert [one.num_tokens for one in turn.slices] == [19]
    while "short" not in bench.drawn_at:
        bench.turn()
    assert bench.first_token_seconds("short") < 0.35


def test_only_the_first_turns_of_a_kind_may_take_as_long_as_compiling_does() -> None:
    bench = Bench()
    bench.add("long", prompt_tokens=6000, max_tokens=30)
    bench.turn()
    assert bench.scheduler.expected_seconds > FIRST_USE_SECONDS
    while len(bench.steps) < 12:
        bench.turn()
    assert bench.scheduler.expected_seconds < 0.5
    while not bench.turn().decodes:
        pass
    assert bench.scheduler.expected_seconds > FIRST_USE_SECONDS
    while len(bench.drawn_at.get("long", ())) < 20:
        bench.turn()
    assert bench.scheduler.expected_seconds < 0.1


def test_prompts_first_means_as_long_a_piece_as_there_can_be() -> None:
    bench = settled()
    bench.scheduler.pace = dataclasses.replace(PACE, stall_seconds=60.0, decode_share=0.0)
    bench.add("long", prompt_tokens=6000)
    assert sum(one.num_tokens for one in bench.turn().slices) >= 2048


@pytest.mark.parametrize(
    ("prompt_tokens", "share", "draws"),
    [(1, 0.1, False), (2, 0.1, True), (40, 0.1, True), (40, 0.5, False), (40, None, False)],
)
def test_a_short_last_slice_draws(prompt_tokens: int, share: float | None, draws: bool) -> None:
    """Where it takes less longer than a decode step, which draws as well."""
    bench = Bench(drawing_share=share)
    bench.add("a", prompt_tokens=prompt_tokens, max_tokens=3)
    bench.run()
    assert any(one.draws for step in bench.steps for one in step.slices) == draws
    assert sum(len(step.decodes) for step in bench.steps) == 3 - draws
    assert len(bench.drawn_at["a"]) == 3


def test_a_last_slice_does_not_draw_over_a_boundary() -> None:
    """Before the last token, where the row is to be copied."""
    bench = Bench(drawing_share=0.1)
    bench.add("a", prompt_tokens=40, max_tokens=3)
    (sequence,) = bench.scheduler._waiting
    sequence.boundaries = (39,)
    bench.run()
    assert [(one.stop_tokens, one.ends_at_boundary, one.draws) for one in slices_of(bench)] == [
        (39, True, ())
    ]
    assert len(bench.drawn_at["a"]) == 3


def slices_of(bench: Bench) -> list[Slice]:
    return [one for step in bench.steps for one in step.slices]


def test_several_short_tails_share_a_turn() -> None:
    bench = settled()
    for number in range(5):
        bench.add(f"r{number}", prompt_tokens=10 + 3 * number)
    step = bench.turn()
    sliced = {row_id for one in step.slices for row_id in one.row_ids}
    assert len(sliced) == 5


def test_equal_prompts_are_cut_as_a_rectangle() -> None:
    bench = settled()
    for number in range(4):
        bench.add(f"r{number}", prompt_tokens=21)
    (one,) = bench.turn().slices
    assert len(one.row_ids) == 4 and one.num_tokens == 80


def test_a_slice_stalls_rows_of_other_models_no_longer_either() -> None:
    bench = settled()
    bench.add("long", prompt_tokens=6000)
    bench.scheduler.admit()
    step = bench.scheduler.schedule(now=bench.clock.now, others=PACE)
    assert expected_seconds(bench, step) <= 1.1 * PACE.stall_seconds


def test_the_stall_that_rows_of_other_models_are_promised_counts() -> None:
    bench = settled(dataclasses.replace(PACE, stall_seconds=60.0, decode_share=0.0))
    bench.add("long", prompt_tokens=6000)
    bench.scheduler.admit()
    step = bench.scheduler.schedule(now=bench.clock.now, others=PACE)
    assert expected_seconds(bench, step) <= 1.1 * PACE.stall_seconds


def test_no_turn_is_much_longer_than_a_second_however_long_a_stall_may_be() -> None:
    bench = settled(dataclasses.replace(PACE, stall_seconds=60.0, decode_share=0.0))
    bench.add("long", prompt_tokens=60_000)
    assert 1.0 < expected_seconds(bench, bench.turn()) < 2.5


def test_settings_change_while_running() -> None:
    spec = wire.ModelSpec(name="m", path="p", max_rows=4, stall_ms=100, decode_share=1.0)
    pace = Pace.of(spec, may_batch=True)
    assert (pace.max_rows, pace.stall_seconds) == (4, 0.1)
    assert pace.decode_share < 1  # prompts must always get on
    assert Pace.of(spec, may_batch=False).max_rows == 1


def test_a_preempted_row_leaves_in_the_next_step() -> None:
    bench = Bench()
    rows = [bench.add(f"r{n}", prompt_tokens=40, max_tokens=30) for n in range(3)]
    for _ in range(12):
        bench.turn()
    row_id = rows[1].row_id
    bench.scheduler.preempt(rows[1])
    assert bench.scheduler.schedule(now=bench.clock.now).leaves == (row_id,)


def test_preempted_rows_end_with_the_tokens_of_an_undisturbed_run() -> None:
    disturbed, alone = Bench(), Bench()
    for bench in (disturbed, alone):
        for number in range(4):
            bench.add(f"r{number}", prompt_tokens=30 + 90 * number, max_tokens=25)
    alone.run()
    for number in range(2_000):
        if disturbed.scheduler.is_idle:
            break
        disturbed.turn()
        if number % 7 == 3 and (rows := disturbed.scheduler.rows):
            disturbed.scheduler.preempt(rows[number % len(rows)])
    tokens = [[one.token_ids for one in bench.sequences.values()] for bench in (disturbed, alone)]
    assert disturbed.scheduler.is_idle and tokens[0] == tokens[1]


def test_a_request_that_may_not_be_admitted_stands_in_nobodys_way() -> None:
    bench = Bench()
    large = bench.add("large", prompt_tokens=400)
    small = bench.add("small", prompt_tokens=4)
    assert bench.scheduler.admit(lambda one: one.num_prompt_tokens < 100) == [small]
    assert bench.scheduler.admit() == [large]

"""Admission by bytes: what a row adds to a padded batch, and slices that shrink."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.cost import CostModel
from engine.core.limits import Limits
from engine.core.pacing import Pace
from engine.core.sequence import Sequence, Status
from engine.core.slicing import EFFICIENT_TOKENS, plan_slices
from engine.core.step import Group, Join, Step
from engine.row_memory import Admission, fitting, hold_to_memory, step_bytes
from engine.sizing.estimate import SMALLEST_SLICE_TOKENS, Estimate, Numbers
from engine.sizing.shape import shape_of
from engine.wire import Level
from tests.engine.sizing.configs import QWEN3_8B
from tests.fakes import FakeClock, FakeRunner, make_work

GIB = 1024**3
ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))


def sequence(name: str, prompt_tokens: int, max_tokens: int = 100) -> Sequence:
    work = make_work(name, prompt=range(prompt_tokens), max_tokens=max_tokens)
    return Sequence(work, delivered_token_ids=(), arrived_at=0.0)


def num_admitted(limits: Limits, lengths: list[int]) -> int:
    admission = Admission(ESTIMATE, limits, rows=(), row_bytes=0)
    return sum(admission.may_admit(sequence(f"r{n}", length)) for n, length in enumerate(lengths))


def test_rows_are_admitted_as_long_as_their_padded_batch_fits() -> None:
    assert num_admitted(Limits(free_bytes=100 * GIB), [4000] * 16) == 16
    assert 4 <= num_admitted(Limits(free_bytes=4 * GIB), [4000] * 16) <= 6


def test_a_long_row_that_does_not_fit_leaves_the_room_to_short_ones() -> None:
    assert num_admitted(Limits(free_bytes=2 * GIB), [30_000, 500, 500, 500]) == 3


def test_a_quiet_engine_takes_one_whatever_is_free() -> None:
    limits = Limits(level=Level.CRITICAL, free_bytes=0, is_quiet=True)
    assert num_admitted(limits, [4000, 4000]) == 1


def test_slices_shrink_to_the_smallest_when_nothing_is_free() -> None:
    rows = [sequence("a", 9000)]
    for free_bytes, expected in ((50 * GIB, 2048), (0, 32)):
        limits = Limits(free_bytes=free_bytes)
        pace = Pace.of(wire.ModelSpec(name="m", path=""), may_batch=True)
        held = hold_to_memory(pace, ESTIMATE, limits, rows=rows, held=0)
        assert held.most_slice_tokens == expected
        assert held.most_turn_tokens is not None and held.most_turn_tokens >= expected


def test_the_slices_of_a_turn_fit_together() -> None:
    free_bytes = ESTIMATE.slice_bytes(600, 0)
    pace = Pace.of(wire.ModelSpec(name="m", path=""), may_batch=True)
    prompts = [sequence(f"r{number}", 300 - number) for number in range(6)]
    for number, one in enumerate(prompts):
        one.row_id = number
    cost = CostModel()
    for _ in range(9):
        cost.learn(tokens=2000, context=0, seconds=0.01)
    pace = hold_to_memory(pace, ESTIMATE, Limits(free_bytes=free_bytes), rows=prompts, held=0)
    slices = plan_slices(prompts, cost=cost, pace=pace, seconds=9.0, now=0.0)
    assert sum(one.num_tokens for one in slices) <= 600


class PartedRunner(FakeRunner):
    """Its batches after the step are these."""

    def __init__(self, *groups: Group) -> None:
        super().__init__(FakeClock())
        self._groups = groups

    def groups_after(self, step: Step) -> tuple[Group, ...]:
        return self._groups


def step_of(*groups: Group, leaves: tuple[int, ...] = (), num_joins: int = 1) -> int:
    rows = [decoding(f"r {number}", 300, left=90) for number in range(4)]
    joins = tuple(
        Join(
            row_id=number,
            prompt_token_ids=tuple(range(300)),
            output_token_ids=(),
            sampling=wire.Sampling(seed=number),
        )
        for number in range(num_joins)
    )
    step = Step(leaves=leaves, joins=joins, decodes=tuple(range(4)))
    return step_bytes(ESTIMATE, step, rows=rows, runner=PartedRunner(*groups))


def test_a_join_needs_what_its_batches_will_hold_and_the_copy_of_those_that_move() -> None:
    long, short = Group(1, 8192, moves=False), Group(3, 512, moves=True)
    held = ESTIMATE.row_bytes(8192) + 3 * ESTIMATE.row_bytes(512)
    keys = ESTIMATE.row_bytes(512) * 3 // (2 * 36)
    parted = step_of(long, short)
    assert held + keys < parted < held + ESTIMATE.step_bytes(4, 8192)
    assert step_of(long._replace(moves=True), short) > parted + ESTIMATE.row_bytes(8192) // (2 * 36)
    assert step_of(Group(4, 8192, moves=True)) > parted + 2 * ESTIMATE.row_bytes(8192)


def test_a_step_that_verifies_draws_at_each_of_its_tokens() -> None:
    rows = [decoding("a", 300, left=90)]
    steps = [Step(decodes=(0,), most_draft_tokens=most) for most in (0, 8)]
    plain, verifying = (
        step_bytes(ESTIMATE, one, rows=rows, runner=PartedRunner()) for one in steps
    )
    assert verifying - plain >= ESTIMATE.drawing_bytes(8)


def test_a_row_that_finds_a_place_is_copied_and_nobody_else() -> None:
    places = Group(4, 8192, moves=False)
    assert step_of(places) < step_of(places._replace(moves=True)) - ESTIMATE.row_bytes(8192) // 72
    assert step_of(places, num_joins=0, leaves=(9,)) < step_of(places) + ESTIMATE.row_bytes(300)


def test_what_a_row_takes_that_finds_a_place_is_its_own_copy() -> None:
    computing = ESTIMATE.step_bytes(4, 300, moving_bytes=ESTIMATE.row_bytes(300))
    assert step_of(Group(4, 512, moves=False)) == 4 * ESTIMATE.row_bytes(512) + computing


def test_free_places_are_computed_like_rows() -> None:
    few, many = Group(4, 512, moves=False), Group(32, 512, moves=False)
    computed = step_of(many) - 28 * ESTIMATE.row_bytes(512) - step_of(few)
    assert computed > ESTIMATE.step_bytes(28, 300, moving_bytes=0) / 2


@pytest.mark.parametrize("step", [Step(decodes=(0, 1)), Step(leaves=(9,), decodes=(0, 1))])
def test_a_batch_that_is_closed_is_copied_whoever_joins(step: Step) -> None:
    rows = [decoding(f"r {number}", 300, left=90) for number in range(2)]
    runner = PartedRunner(Group(4, 512, moves=False))
    before = step_bytes(ESTIMATE, step, rows=rows, runner=runner)
    runner.closing_bytes = ESTIMATE.row_bytes(512) * 72
    closing = step_bytes(ESTIMATE, step, rows=rows, runner=runner)
    assert closing >= before + ESTIMATE.row_bytes(512) / 2


def test_rows_that_leave_may_bring_others_together() -> None:
    apart, together = Group(1, 8192, moves=False), Group(3, 8192, moves=True)
    before = step_of(apart, Group(2, 512, moves=False), leaves=(9,), num_joins=0)
    after = step_of(together, leaves=(9,), num_joins=0)
    assert after > before + ESTIMATE.row_bytes(8192)


def test_a_long_row_joins_short_ones_where_its_own_length_fits() -> None:
    """Padded to it, the short ones would not."""
    lengths = [16_000, 200, 200, 200, 200]
    free_bytes = ESTIMATE.row_bytes(16_000) + 5 * ESTIMATE.row_bytes(1_000)
    assert free_bytes < ESTIMATE.batch_bytes(lengths) / 2
    assert num_admitted(Limits(free_bytes=free_bytes), lengths) == 5


def test_the_prefix_cache_counts_as_room_for_rows_and_for_slices_worth_computing() -> None:
    assert num_admitted(Limits(free_bytes=GIB, tier_bytes=3 * GIB), [4000] * 16) == num_admitted(
        Limits(free_bytes=4 * GIB), [4000] * 16
    )
    pace = Pace.of(wire.ModelSpec(name="m", path=""), may_batch=True)
    limits = Limits(free_bytes=0, tier_bytes=50 * GIB)
    held = hold_to_memory(pace, ESTIMATE, limits, rows=[sequence("a", 9000)], held=0)
    assert held.most_slice_tokens == EFFICIENT_TOKENS


def test_a_step_copies_caches_only_where_they_are_full() -> None:
    """Rows that only draw their next token leave the memory of a join to others."""
    rows = [sequence(f"r{number}", 4000) for number in range(8)]
    step = Step(decodes=tuple(range(8)))

    def needed(growing: tuple[tuple[int, int], ...]) -> int:
        runner = FakeRunner(FakeClock())
        runner.growing = growing
        return step_bytes(ESTIMATE, step, rows=rows, runner=runner)

    keys = 8 * ESTIMATE.row_bytes(4096) // (2 * 36)
    assert needed(()) + keys < ESTIMATE.step_bytes(8, 4000)
    grown = 8 * (ESTIMATE.row_bytes(4097) - ESTIMATE.row_bytes(4096))
    assert needed(((8, 4096),)) > needed(()) + keys + grown
    both, larger = needed(((3, 256), (5, 4096))), needed(((5, 4096),))
    assert both - larger == 3 * (ESTIMATE.row_bytes(257) - ESTIMATE.row_bytes(256))


def test_groups_that_are_parted_anew_copy_a_layer_of_all() -> None:
    def computing(*groups: tuple[int, int]) -> int:
        caches = sum(rows * ESTIMATE.row_bytes(longest) for rows, longest in groups)
        return ESTIMATE.grouped_bytes(groups, slicing_bytes=0) - caches

    together = computing((2, 4000), (2, 300))
    assert ESTIMATE.step_bytes(2, 4000) < together < ESTIMATE.step_bytes(4, 4000)
    assert computing((4, 900)) == pytest.approx(ESTIMATE.step_bytes(4, 900), abs=4)
    slicing = ESTIMATE.slice_bytes(2048, 4000)
    both = ESTIMATE.grouped_bytes([(4, 900)], slicing_bytes=slicing)
    assert both == 4 * ESTIMATE.row_bytes(900) + slicing


def test_rows_of_many_lengths_are_admitted_as_they_can_be_parted() -> None:
    lengths = [200, 6_000, 6_100, 12_000, 12_100, 20_000, 20_100]
    needed = sum(ESTIMATE.row_bytes(length + 100) for length in lengths) + GIB
    parted = (map(ESTIMATE.batch_bytes, (lengths[:at], lengths[at:])) for at in range(7))
    assert min(map(sum, parted)) > needed
    assert num_admitted(Limits(free_bytes=needed), lengths) == 7


def decoding(name: str, num_tokens: int, *, left: int) -> Sequence:
    row = sequence(name, num_tokens, max_tokens=left)
    row.status = Status.DECODING
    return row


def admits_beside(rows: list[Sequence], one: Sequence, *, room_tokens: int) -> bool:
    """Is there a row for it where what is held and free are the caches of so many tokens?"""
    longest = max(len(row.token_ids) for row in rows) + 512
    room_bytes = ESTIMATE.row_bytes(room_tokens) + ESTIMATE.step_bytes(len(rows) + 1, longest)
    held_bytes = sum(ESTIMATE.row_bytes(len(row.token_ids)) for row in rows)
    limits = Limits(free_bytes=room_bytes - held_bytes)
    admission = Admission(ESTIMATE, limits, rows=rows, row_bytes=held_bytes)
    return admission.may_admit(one)


def test_rows_that_end_soon_leave_their_memory_to_the_growth_of_others() -> None:
    """Sixteen of 2,048 tokens that end within 50, and four of 512 that grow by 512."""
    ending = [decoding(f"ending {n}", 2048 - 50, left=50) for n in range(16)]
    growing = [decoding(f"growing {n}", 512, left=2000) for n in range(4)]
    new = sequence("new", 512, max_tokens=200)
    room_tokens = 16 * 2048 + 4 * 768 + 768
    assert admits_beside([*ending, *growing], new, room_tokens=room_tokens)
    staying = [decoding(f"staying {n}", 2048 - 50, left=2000) for n in range(16)]
    assert not admits_beside([*staying, *growing], new, room_tokens=room_tokens)


def test_growth_after_others_have_ended_counts() -> None:
    ending = [decoding("ending", 512, left=10)]
    growing = [decoding(f"growing {n}", 1024, left=2000) for n in range(24)]
    new = sequence("new", 256, max_tokens=10)
    at_first = 24 * 1280 + 768 + 512
    at_last = 24 * 1536 + 512
    assert admits_beside([*ending, *growing], new, room_tokens=at_last)
    assert not admits_beside([*ending, *growing], new, room_tokens=at_first)


def test_a_join_of_parted_rows_copies_a_layer_of_what_they_may_take() -> None:
    room_bytes = 8 * GIB
    most = ESTIMATE.most_row_bytes(room_bytes, 32, 20_000)
    assert most > room_bytes * 0.85
    together = most + ESTIMATE.step_bytes(32, 20_000, moving_bytes=most)
    assert 0.98 * room_bytes < together <= room_bytes
    few = ESTIMATE.most_row_bytes(room_bytes, 2, 1000)
    assert few + ESTIMATE.step_bytes(2, 1000) == pytest.approx(room_bytes, abs=4)


def test_of_ready_rows_as_many_join_as_fit_with_the_copy_of_a_layer() -> None:
    ready = [sequence(f"ready {n}", 4000) for n in range(3)]
    for one in ready:
        one.status, one.computed_tokens = Status.PREFILLING, 3999
    rows = [decoding("old", 4000, left=50), *ready]
    held = 4 * ESTIMATE.row_bytes(4000)
    copies = [ESTIMATE.grouped_bytes([(n, 4096)], slicing_bytes=0) for n in (1, 2, 3, 4)]

    def joins(free_bytes: int) -> int:
        return fitting(ESTIMATE, Limits(free_bytes=free_bytes), rows=rows, held=held).most_joins

    assert joins(copies[-1] - held) == 3
    assert joins(copies[1] - 2 * ESTIMATE.row_bytes(4096)) == 1
    assert joins(0) == 0


def test_a_slice_waits_for_room_for_its_own_context() -> None:
    rows = [sequence("short", 100), sequence("long", 30_000)]
    rows[1].computed_tokens = 29_000
    short, long = (
        ESTIMATE.grown_slice_bytes(SMALLEST_SLICE_TOKENS, one.computed_tokens) for one in rows
    )
    for free_bytes, tier_bytes, waiting in (
        (long, 0, set()),
        (0, long, set()),
        (short, 0, {"long"}),
        (short - 1, 0, {"short", "long"}),
    ):
        limits = Limits(free_bytes=free_bytes, tier_bytes=tier_bytes)
        assert fitting(ESTIMATE, limits, rows=rows, held=0).no_room_for == waiting

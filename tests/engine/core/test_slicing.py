"""Which widths slices have."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from engine.core.cost import CostModel
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence
from engine.core.slicing import ANY_SHAPE_SCORES, plan_slices
from tests.fakes import make_work

PACE = Pace(max_rows=8, stall_seconds=0.25, decode_share=0.5)
SECONDS_PER_TOKEN = 0.1 / 1300  # in 100 ms: between two widths of the grid


def prompt(num_tokens: int, *, computed: int = 0) -> Sequence:
    work = make_work("one", prompt=[5] * num_tokens, max_tokens=4)
    sequence = Sequence(work, delivered_token_ids=(), arrived_at=0.0)
    sequence.row_id, sequence.computed_tokens = 7, computed
    return sequence


def slices_of(sequence: Sequence, *, on_grid: bool, seconds: float = 0.1) -> list[tuple[int, int]]:
    """Where each begins and how wide it is, a turn of so many seconds each."""
    cost = CostModel()
    for tokens, context in itertools.product((64, 256, 1024, 4096), (0, 9_000, 18_000)):
        cost.learn(tokens=tokens, context=context, seconds=tokens * SECONDS_PER_TOKEN)
    found = []
    while sequence.slice_tokens_left > 0:
        for one in plan_slices(
            [sequence], cost=cost, pace=PACE, seconds=seconds, now=0.0, on_grid=on_grid
        ):
            found.append((one.start_tokens, one.num_tokens))
    return found


@pytest.mark.parametrize("computed", [0, 256, 1800])
@pytest.mark.parametrize("num_tokens", [1, 2, 900, 2500, 16_001, 31_987])
@pytest.mark.parametrize("on_grid", [False, True])
def test_every_prompt_is_computed_once_and_in_order(
    num_tokens: int, computed: int, on_grid: bool
) -> None:
    found = slices_of(prompt(num_tokens + computed, computed=computed), on_grid=on_grid)
    reached = computed
    for start, width in found:
        assert start == reached
        reached += width
    assert reached == num_tokens + computed - 1


def test_long_slices_of_all_prompts_share_their_shapes() -> None:
    """All but a rest at the end of each, whatever the time for a slice was."""
    shapes = set()
    for number in range(40):
        sequence = prompt(20_000 + 37 * number, computed=256 * (number % 5))
        found = slices_of(sequence, on_grid=True, seconds=0.1 + number / 400)
        long = [one for one in found if one[1] * sum(one) > ANY_SHAPE_SCORES]
        shapes.update(long[:-1])
    assert len(shapes) <= 40


@pytest.mark.parametrize("drawing_seconds", [0.0, 9.0])
def test_a_short_prompt_does_not_wait_for_a_piece_of_a_long_one(drawing_seconds: float) -> None:
    """Also where its slice draws: what a turn has drawn is told at its end."""
    cost = CostModel()
    cost.learn(tokens=1000, context=0, seconds=0.1)
    rows = [prompt(9000), prompt(20)]
    slices = plan_slices(
        rows, cost=cost, pace=PACE, seconds=0.1, now=0.0, drawing_seconds=drawing_seconds
    )
    assert [one.stop_tokens for one in slices] == [19 + bool(drawing_seconds)]


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_nor_for_one_that_is_long_but_fits_the_turn(share: float) -> None:
    """Unless the pace puts prompts first: then the batch is filled at once."""
    cost = CostModel()
    cost.learn(tokens=1000, context=500, seconds=0.3)
    pace = dataclasses.replace(PACE, decode_share=share)
    rows = [prompt(1501), prompt(21), prompt(31)]
    slices = plan_slices(rows, cost=cost, pace=pace, seconds=1.0, now=0.0)
    assert [one.stop_tokens for one in slices] == [20, 30] + ([1500] if share == 0 else [])


@pytest.mark.parametrize("longer", [0, 20])
@pytest.mark.parametrize("number", range(40))
def test_prompts_of_about_one_length_share_a_turn_as_many_as_fit(number: int, longer: int) -> None:
    """Though each takes longer than a stall. Once that hung on the last bit of a sum."""
    cost = CostModel()
    cost.learn(tokens=600, context=300, seconds=0.27 + number / 1000)
    rows = [prompt(600 + place * longer) for place in range(5)]
    for place, row in enumerate(rows):
        row.request_id = str(place)
    slices = plan_slices(rows, cost=cost, pace=PACE, seconds=1.0, now=0.0)
    assert [one.num_tokens for one in slices] == [599, 599 + longer, 599 + 2 * longer]


def test_what_is_short_is_not_cut_for_the_grid() -> None:
    assert slices_of(prompt(801), on_grid=True) == [(0, 800)]


def test_many_short_prompts_together_are_no_more_than_is_trusted() -> None:
    """While somebody decodes: what tiny turns took tells nothing of one that is large."""
    cost = CostModel()
    for num_tokens in (1, 2, 3, 4):
        cost.learn(tokens=num_tokens, context=0, seconds=0.001)
    scheduler = Scheduler(PACE, TimeLedger(), cost=cost)
    for number in range(12):
        scheduler.add(prompt(6 + number))
    scheduler.admit()
    step = scheduler.schedule(now=0.0, others=PACE)
    assert 0 < sum(one.num_tokens for one in step.slices) <= cost.trusted_tokens == 16

"""Where slices of a prompt with images end, and what travels of what they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.cost import CostModel
from engine.core.images import Image, outside_images, whole_images
from engine.core.pacing import Pace
from engine.core.pixels import pack, unpack
from engine.core.sequence import Sequence
from engine.core.slicing import plan_slices
from engine.core.step import Slice
from tests.engine.image_prompts import Prompt, picture, prompt_of
from tests.fakes import make_work

PARTS = st.lists(
    st.one_of(st.integers(1, 90), st.just(picture(1)), st.just(picture(2))), max_size=9
)
IMAGES = tuple(Image(start=start, num_tokens=10, pixels=b"") for start in (10, 20, 50))


def sequence(prompt: Prompt, *, row_id: int = 7) -> Sequence:
    made = Sequence(make_work("a", **prompt.fields), delivered_token_ids=(), arrived_at=0.0)
    made.row_id = row_id
    return made


def slices_of(
    *prompts: Sequence,
    on_grid: bool = False,
    most: int = 64,
    layers: int = 1,
    cost: CostModel | None = None,
) -> list[Slice]:
    pace = Pace(max_rows=8, stall_seconds=0.25, decode_share=0.5, most_slice_tokens=most)
    cost, found = cost or CostModel(), []
    while any(one.slice_tokens_left > 0 for one in prompts):
        found += plan_slices(
            list(prompts),
            cost=cost,
            pace=pace,
            seconds=0.1,
            now=0.0,
            on_grid=on_grid,
            tower_layers=layers,
            drawing_seconds=1.0,
        )
    return found


def looking_takes(seconds: float) -> CostModel:
    cost = CostModel()
    if seconds:
        cost.learn_images(1, seconds=seconds)
    return cost


@given(
    parts=PARTS,
    last=st.integers(1, 60),
    most=st.integers(1, 300),
    on_grid=st.booleans(),
    layers=st.integers(1, 30),
    seconds=st.sampled_from([0.0, 0.01, 0.1, 3.0]),
)
def test_no_slice_cuts_an_image_and_none_has_two(
    parts: list[Any], last: int, most: int, on_grid: bool, layers: int, seconds: float
) -> None:
    one = sequence(prompt_of(*parts, last))
    cost, looked = looking_takes(seconds), 0.0
    reached, seen = 0, []
    for each in slices_of(one, on_grid=on_grid, most=most, layers=layers, cost=cost):
        assert each.start_tokens == reached
        looked += each.look_share
        if each.tower_layers:
            assert each.width == 0
            continue
        reached = each.stop_tokens
        assert outside_images(one.images, reached) == reached
        assert len(each.images) <= 1
        assert not (each.images and each.draws)
        seen += each.images
    assert reached >= len(one.token_ids) - 1
    assert tuple(seen) == one.images
    assert looked == pytest.approx(len(seen))


def test_looking_is_done_in_portions_that_running_rows_can_wait_for() -> None:
    """Of 20 layers that take 2 s, none of which takes longer than the turn."""
    cost = looking_takes(2.0)
    one = sequence(prompt_of(20, picture(1), 20))
    turns = 0
    pace = Pace(max_rows=8, stall_seconds=0.25, decode_share=0.5)
    while one.slice_tokens_left > 0:
        slices = plan_slices([one], cost=cost, pace=pace, seconds=0.25, now=0.0, tower_layers=20)
        looked = sum(each.look_share for each in slices)
        assert looked * cost.image_seconds <= 0.25
        turns += 1
    assert turns >= 8


def test_short_prompts_do_not_wait_for_somebodys_image() -> None:
    cost = looking_takes(2.0)
    shown, words = sequence(prompt_of(picture(1), 20)), sequence(prompt_of(20), row_id=3)
    pace = Pace(max_rows=8, stall_seconds=0.25, decode_share=0.5)
    first, *_ = plan_slices(
        [shown, words], cost=cost, pace=pace, seconds=0.25, now=0.0, tower_layers=20
    )
    assert first.row_ids == (3,)


def test_rows_with_images_are_computed_apart() -> None:
    rows = [sequence(prompt_of(picture(seed), 20), row_id=seed) for seed in (1, 2)]
    rows += [sequence(prompt_of(36), row_id=number) for number in (3, 4)]
    found = slices_of(*rows)
    assert sorted(one.row_ids for one in found if one.images) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, 5, 5), (0, 12, 10), (10, 12, 20), (10, 45, 20), (20, 45, 45), (20, 55, 50), (0, 60, 20)],
)
def test_a_slice_ends_beside_images(start: int, stop: int, expected: int) -> None:
    assert whole_images(IMAGES, start, stop) == expected


@pytest.mark.parametrize(
    ("position", "expected"), [(9, 9), (10, 10), (11, 10), (19, 10), (20, 20), (30, 30), (59, 50)]
)
def test_a_boundary_is_moved_out_of_an_image(position: int, expected: int) -> None:
    assert outside_images(IMAGES, position) == expected


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (32, 32), (5, 400)])
def test_pixels_come_back_as_they_were(size: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
    np.testing.assert_array_equal(unpack(pack(pixels)), pixels)


def test_what_images_take_is_learned_apart_from_slices() -> None:
    cost = CostModel()
    for _ in range(8):
        cost.learn(tokens=500, context=0, seconds=0.1)
    reading = cost.predict(500)
    for _ in range(8):
        cost.learn_images(1, seconds=0.6)
    assert cost.predict(500) == reading
    assert cost.predict(500, images=2) == pytest.approx(reading + 1.2)

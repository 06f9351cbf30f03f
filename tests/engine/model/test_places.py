"""A row takes the place of one that has left; nobody else is copied, nobody's tokens change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.core.step import Join, Slice, Step
from engine.model.batch import RowBatch
from engine.model.grouped_batch import GroupedBatch
from engine.model.runner import Runner
from tests.engine.model.rig import drawn, loaded, prefilled

PLAIN, HYBRID, WINDOWED, MAMBA = "tiny-qwen3", "tiny-qwen3-next", "tiny-gemma3", "tiny-mamba"


def batch_of(*lengths: int, name: str = PLAIN, **options: Any) -> RowBatch:
    batch = RowBatch(loaded(name).model, **options)
    batch.join([prefilled(name, row_id, length) for row_id, length in enumerate(lengths)])
    return batch


def alone_in_a_batch(name: str, row_id: int, length: int) -> RowBatch:
    batch = RowBatch(loaded(name).model)
    batch.join([prefilled(name, row_id, length)])
    return batch


def copied_bytes(change: Callable[[], None], batch: RowBatch | GroupedBatch) -> int:
    """What is alive besides the batch while it changes; a copy of it all would be a layer."""
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    change()
    mx.synchronize()
    return mx.get_peak_memory() - max(before, mx.get_active_memory())


@pytest.mark.parametrize("name", [PLAIN, HYBRID, WINDOWED, MAMBA])
def test_tokens_are_those_of_a_row_that_is_alone(name: str) -> None:
    """Random joins and leaves, places free for a while, taken by shorter and longer rows."""
    chooser = random.Random(name)
    batch = batch_of(30, 12, 25, name=name)
    alone = {number: alone_in_a_batch(name, number, n) for number, n in enumerate((30, 12, 25))}
    taken = 0
    for number in range(3, 40):
        if len(batch.row_ids) > 1 and chooser.random() < 0.6:
            gone = chooser.choice(batch.row_ids)
            batch.leave((gone,))
            del alone[gone]
        if chooser.random() < 0.6:
            length, places = chooser.choice((1, 5, 18, 33, 70)), len(batch.places)
            batch.join([prefilled(name, number, length)])
            alone[number] = alone_in_a_batch(name, number, length)
            taken += len(batch.places) == places
        for _ in range(chooser.randint(0, 2)):
            assert drawn(batch) == {one: drawn(alone[one])[one] for one in batch.row_ids}
    assert taken > 3 or name == WINDOWED


def test_a_row_that_takes_a_place_copies_nobody_else() -> None:
    name = "small-llama"
    batch = batch_of(200, 300, *[250] * 14, name=name)
    mx.eval(batch.forward())
    row_bytes = batch.num_bytes // 16
    row = prefilled(name, 20, 280)
    batch.leave((3,))
    assert copied_bytes(lambda: batch.join([row]), batch) < row_bytes
    assert batch.places[3] == 20
    assert len(batch.places) == 16


@pytest.mark.parametrize("length", [301, 900])
def test_a_row_that_is_longer_than_all_does_not_fit(length: int) -> None:
    batch = batch_of(300, 200, 100)
    batch.leave((1,))
    batch.join([prefilled(PLAIN, 9, length)])
    assert batch.places == [0, 2, 9]
    assert batch.lengths == [300, 100, length]


def test_a_row_as_long_as_the_longest_has_become_fits() -> None:
    batch = batch_of(60, 40, 50)
    for _ in range(8):
        drawn(batch)
    batch.leave((1,))
    batch.join([prefilled(PLAIN, 9, 68)])
    assert batch.places == [0, 9, 2]


def test_places_that_stay_free_are_closed_when_they_have_cost_as_much() -> None:
    batch = batch_of(60, 40, 50, 30)
    batch.leave((1, 2))
    steps = 0
    while len(batch.places) == 4:
        drawn(batch)
        steps += 1
        assert steps < 9
    assert batch.places == [0, 3]
    assert steps == 5  # half of each of four was wasted: as much as it takes to copy the rest


def test_the_padding_that_a_long_row_leaves_behind_goes_soon() -> None:
    batch = batch_of(40, 50, 2000)
    before_bytes = batch.num_bytes
    batch.leave((2,))
    for _ in range(4):
        drawn(batch)
    assert batch.num_bytes < before_bytes / 4


def test_little_waste_is_let_be_while_rows_come_and_go() -> None:
    """Else the batch would be copied for a place that the next row takes."""
    batch = batch_of(*[60] * 15, 61)
    for number in range(16, 56):
        batch.leave((3 if number == 16 else number - 1,))
        drawn(batch)
        drawn(batch)
        batch.join([prefilled(PLAIN, number, 20)])
        assert batch.places[3] == number


def test_full_buffers_grow_without_the_free_places() -> None:
    batch = batch_of(255, 100, 90, 80)
    drawn(batch)
    assert batch.full_tokens == 256
    batch.leave((1,))
    drawn(batch)
    assert batch.places == [0, 2, 3]


def test_numbers_that_are_none_stay_with_the_row_that_had_them() -> None:
    """What a place held before is masked for its next row; what is no number must be gone."""
    batch = batch_of(40, 50, 30)
    layer = batch._caches[0]
    layer.keys[1] = float("nan")
    layer.values[1] = float("nan")
    batch.leave((1,))
    batch.join([prefilled(PLAIN, 9, 20)])
    logits = batch.forward()
    assert not mx.isnan(logits).any().item()


def test_where_memory_is_wanted_nobody_keeps_a_place() -> None:
    batch = GroupedBatch(loaded(PLAIN).model, pass_bytes=1 << 40)
    batch.join([prefilled(PLAIN, number, 40 + number) for number in range(4)])
    before_bytes = batch.num_bytes
    batch.most_bytes = before_bytes
    known = batch.groups_after((1, 2), {})
    batch.leave((1, 2))
    assert batch.places == (0, 3)
    assert batch.num_bytes <= before_bytes / 2
    assert [(one.num_rows, one.moves) for one in known] == [(2, True)]


def test_it_says_before_whether_a_row_finds_a_place() -> None:
    batch = GroupedBatch(loaded(PLAIN).model, pass_bytes=1 << 40)
    batch.join([prefilled(PLAIN, number, 40 + number) for number in range(4)])
    row = prefilled(PLAIN, 9, 30)
    (known,) = batch.groups_after((1,), {9: (row.caches, row.length)})
    batch.leave((1,))
    batch.join([row])
    assert known.num_rows == 4
    assert not known.moves
    assert batch.places == (0, 9, 2, 3)


def test_it_says_after_a_step_whether_all_rows_were_copied() -> None:
    batch = GroupedBatch(loaded(PLAIN).model, pass_bytes=1 << 40)
    batch.join([prefilled(PLAIN, number, 40 + number) for number in range(4)])
    said = []
    for step in range(3):
        if step == 1:
            batch.leave((1,))
            batch.join([prefilled(PLAIN, 9, 30)])
        if step == 2:
            batch.join([prefilled(PLAIN, 8, 60)])
        batch.feed(mx.argmax(batch.forward(), axis=-1))
        said.append(batch.is_new)
    assert said == [True, False, True]
    batch.leave((2,))
    for group in batch._groups:
        group.close()
    batch.leave((3,))
    batch.join([prefilled(PLAIN, 7, 20)])
    batch.forward()
    assert not batch.is_new


def test_it_says_before_a_step_that_it_closes_a_batch() -> None:
    batch = GroupedBatch(loaded(PLAIN).model, pass_bytes=1 << 40)
    batch.join([prefilled(PLAIN, number, 40 + number) for number in range(4)])
    batch.leave((1, 2))
    said = []
    while len(batch.places) == 4:
        assert len(said) < 9
        said.append((batch.closing_bytes, batch.num_bytes))
        batch.feed(mx.argmax(batch.forward(), axis=-1))
    assert [closing for closing, _ in said[:-1]] == [0] * (len(said) - 1)
    assert said[-1][0] == said[-1][1] > batch.num_bytes


def test_nothing_is_told_of_a_place_that_nobody_has() -> None:
    runner = Runner(loaded(PLAIN).model, token_bytes=bytes)
    joins = tuple(
        Join(
            row_id=number,
            prompt_token_ids=tuple(range(10, 13 + number)),
            output_token_ids=(),
            sampling=wire.Sampling(seed=1),
        )
        for number in range(3)
    )
    slices = tuple(
        Slice(row_ids=(one.row_id,), start_tokens=0, token_ids=(one.prompt_token_ids[:-1],))
        for one in joins
    )
    runner.run(Step(slices=slices))
    runner.run(Step(joins=joins, decodes=(0, 1, 2)))
    alone = Step(leaves=(0, 2), decodes=(1,))
    assert len(runner.groups_after(Step(leaves=(0, 1, 2)))) == 0
    assert len(runner.groups_after(alone)) == 1
    told = [*runner.run(alone), *runner.run(Step())]
    assert runner.num_places == 3
    assert [[one.row_id for one in outcome.drawn] for outcome in told if outcome.step is alone] == [
        [1]
    ]

"""Rows whose keys and values are quantised decode together, with the tokens of each alone."""

from __future__ import annotations

import random
from typing import Any

import mlx.core as mx
import pytest

from engine.core.step import Join, Slice, Step
from engine.model import caches as row_caches
from engine.model.batch import NewRow, RowBatch
from engine.model.capability import check_batching
from engine.model.grouped_batch import GroupedBatch
from engine.model.quantised import quantised_caches
from engine.model.runner import Runner
from engine.wire import Sampling
from tests.engine.devices import needs_quantised_caches
from tests.engine.model.rig import drawn, loaded, prefilled_row

PLAIN, HYBRID, WINDOWED = "tiny-qwen3", "tiny-qwen3-next", "tiny-gemma3"

pytestmark = needs_quantised_caches


class Rows:
    """A model with quantised caches, and rows of it."""

    def __init__(self, name: str, bits: int):
        self.model: Any = loaded(name).model
        self.new_caches = quantised_caches(self.model, bits)

    def row(self, row_id: int, length: int) -> NewRow:
        return prefilled_row(self.model, row_id, length, caches=self.new_caches())

    def batch(self, *lengths: int, first: int = 0) -> RowBatch:
        batch = RowBatch(self.model)
        batch.join([self.row(row_id, length) for row_id, length in enumerate(lengths, first)])
        return batch


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", [PLAIN, HYBRID, WINDOWED])
def test_tokens_are_those_of_a_row_that_is_alone(name: str, bits: int) -> None:
    chooser, rows = random.Random(f"{name} {bits}"), Rows(name, bits)
    batch = rows.batch(30, 12, 25)
    alone = {one: rows.batch(length, first=one) for one, length in enumerate((30, 12, 25))}
    for number in range(3, 40):
        if len(batch.row_ids) > 1 and chooser.random() < 0.6:
            gone = chooser.choice(batch.row_ids)
            batch.leave((gone,))
            del alone[gone]
        if chooser.random() < 0.6:
            length = chooser.choice((1, 5, 18, 33, 255, 300))
            batch.join([rows.row(number, length)])
            alone[number] = rows.batch(length, first=number)
        for _ in range(chooser.randint(0, 3)):
            assert drawn(batch) == {one: drawn(alone[one])[one] for one in batch.row_ids}


def test_a_row_that_comes_out_of_the_batch_goes_on_alone() -> None:
    rows = Rows(PLAIN, 8)
    batch, alone = rows.batch(20, 33), rows.batch(20)
    for _ in range(3):
        drawn(batch)
        drawn(alone)
    caches, length = batch.extract(0)
    assert length == 23
    again = RowBatch(rows.model)
    again.join([NewRow(row_id=0, token_id=9, length=length, caches=caches)])
    alone.feed(mx.array([9], mx.uint32))
    for _ in range(5):
        assert drawn(again) == drawn(alone)


def test_rows_take_what_quantised_ones_take() -> None:
    """Padding too, and the room for the next tokens."""
    rows = Rows(PLAIN, 4)
    batch = rows.batch(100, 200)
    one = rows.row(5, 200).caches
    assert batch.num_bytes == 2 * row_caches.num_bytes(one)
    assert row_caches.bytes_per_token(one) * 2 * batch.capacity == batch.num_bytes


def test_rows_of_very_different_lengths_decode_apart() -> None:
    rows = Rows(PLAIN, 8)
    batch = GroupedBatch(rows.model, pass_bytes=1)
    batch.join([rows.row(0, 20), rows.row(1, 2000)])
    assert batch.num_groups == 2


@pytest.mark.parametrize("name", [PLAIN, HYBRID, WINDOWED])
def test_the_self_check_finds_that_they_may_be_batched(name: str) -> None:
    rows = Rows(name, 8)
    *_, may_batch = check_batching(rows.model, rows.new_caches)
    assert may_batch


def test_tails_of_several_rows_are_read_in_one_slice() -> None:
    rows = Rows(PLAIN, 8)
    prompts = [tuple(range(start, start + 40)) for start in (10, 300)]

    def tokens_of(*chosen: int) -> dict[int, int]:
        runner = Runner(rows.model, token_bytes=bytes, new_caches=rows.new_caches)
        for start, stop in ((0, 30), (30, 39)):
            token_ids = tuple(prompts[one][start:stop] for one in chosen)
            one_slice = Slice(row_ids=chosen, token_ids=token_ids, start_tokens=start)
            runner.run(Step(slices=(one_slice,)))
        joins = tuple(
            Join(
                row_id=one,
                prompt_token_ids=prompts[one],
                output_token_ids=(),
                sampling=Sampling(temperature=0.0, seed=0),
            )
            for one in chosen
        )
        outcomes = [*runner.run(Step(joins=joins, decodes=chosen)), *runner.run(Step())]
        return {one.row_id: one.token_id for outcome in outcomes for one in outcome.drawn}

    assert tokens_of(0, 1) == tokens_of(0) | tokens_of(1)

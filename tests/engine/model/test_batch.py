"""The row batch itself: when it needs a mask, and what it keeps in step."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine.model import caches as row_caches
from engine.model.batch import NewRow, RowBatch
from tests.engine.model.rig import loaded


def prefilled(name: str, row_id: int, length: int) -> NewRow:
    model = loaded(name).model
    caches = row_caches.new_caches(model)
    model(mx.arange(10, 10 + length)[None], cache=caches)
    row_caches.evaluate(caches)
    return NewRow(row_id=row_id, token_id=9, length=length, caches=caches)


def batch_of(*lengths: int, name: str = "tiny-qwen3") -> RowBatch:
    batch = RowBatch(loaded(name).model)
    for row_id, length in enumerate(lengths):
        batch.join([prefilled(name, row_id, length)])
    return batch


def step(batch: RowBatch) -> mx.array:
    logits = batch.forward()
    batch.feed(mx.argmax(logits, axis=-1))
    mx.eval(logits)
    return logits


def test_rows_of_equal_length_need_no_mask() -> None:
    batch = batch_of(20, 20, 20)
    step(batch)
    assert batch.is_level and batch.lengths == [21, 21, 21]


def test_rows_of_unequal_length_are_padded() -> None:
    assert not batch_of(20, 12).is_level


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next"])
def test_rows_that_become_equal_need_no_mask_any_more(name: str) -> None:
    batch = batch_of(12, 20, 12, name=name)
    first = step(batch)
    kept = batch.leave((1,))
    assert kept == [0, 2] and batch.row_ids == [0, 2] and batch.is_level
    second = step(batch)
    # Rows 0 and 2 hold the same tokens: they must go on in the same way.
    assert mx.allclose(first[0], first[2], atol=1e-4)
    assert mx.allclose(second[0], second[1], atol=1e-4)


def test_an_empty_batch_can_be_joined_again() -> None:
    batch = batch_of(5, 9)
    step(batch)
    assert batch.leave((0, 1)) == [] and batch.row_ids == []
    batch.join([prefilled("tiny-qwen3", 7, 5)])
    assert step(batch).shape[0] == 1 and batch.is_level


def test_a_row_that_is_not_there_does_not_leave() -> None:
    batch = batch_of(5)
    assert batch.leave((99,)) == [0] and batch.row_ids == [0]


def test_bytes_of_the_batch_are_counted() -> None:
    assert batch_of(9, 300).num_bytes > batch_of(5, 9).num_bytes > 0

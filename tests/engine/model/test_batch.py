"""The row batch itself: when it needs a mask, and what it keeps in step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.cache import KVCache

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


def test_layers_of_padded_rows_count_in_one_array() -> None:
    batch = batch_of(20, 12, 7)
    for tokens in (1, 2):
        step(batch)
        first, *others = (layer.offset for layer in batch._caches)
        assert others and all(one is first for one in others)
        assert first.tolist() == [20 + tokens, 12 + tokens, 7 + tokens]


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next"])
def test_rows_that_become_equal_need_no_mask_any_more(name: str) -> None:
    batch = batch_of(12, 20, 12, name=name)
    first = step(batch)
    batch.leave((1,))
    batch.close()
    assert batch.row_ids == [0, 2] and batch.is_level
    second = step(batch)
    # Rows 0 and 2 hold the same tokens: they must go on in the same way.
    assert mx.allclose(first[0], first[2], atol=1e-4)
    assert mx.allclose(second[0], second[1], atol=1e-4)


def test_an_empty_batch_can_be_joined_again() -> None:
    batch = batch_of(5, 9)
    step(batch)
    batch.leave((0, 1))
    assert batch.row_ids == [] and batch.num_bytes == 0
    batch.join([prefilled("tiny-qwen3", 7, 5)])
    assert step(batch).shape[0] == 1 and batch.is_level


def test_a_row_that_is_not_there_does_not_leave() -> None:
    batch = batch_of(5)
    batch.leave((99,))
    assert batch.row_ids == [0]


def test_bytes_of_the_batch_are_counted() -> None:
    assert batch_of(9, 300).num_bytes > batch_of(5, 9).num_bytes > 0


class ForgetfulModel(nn.Module):  # type: ignore[misc]
    """Its logits do not depend on what it writes down: nothing makes that be computed."""

    def __call__(self, inputs: mx.array, *, cache: list[Any]) -> mx.array:
        (layer,) = cache
        rows, tokens = inputs.shape
        layer.update_and_fetch(*(mx.ones((rows, 1, tokens, 4)) for _ in range(2)))
        return mx.zeros((rows, tokens, 8))


@pytest.mark.parametrize("lengths", [(5, 5), (5, 9)], ids=["level", "padded"])
def test_what_no_token_depends_on_is_computed_every_64_steps(
    tmp_path: Path, lengths: tuple[int, int]
) -> None:
    """Else the chain of what is to be computed grows by a step with every token."""
    model = ForgetfulModel()
    batch = RowBatch(model)
    for row_id, length in enumerate(lengths):
        caches = [KVCache()]
        model(mx.ones((1, length)), cache=caches)
        batch.join([NewRow(row_id=row_id, token_id=1, length=length, caches=caches)])
    chains: list[int] = []
    for _ in range(130):
        step(batch)
        chains.append(_chain_length(batch, tmp_path / "graph.dot"))
    assert max(chains) == chains[62] > 62 and chains[63] == chains[127] < 9


def _chain_length(batch: RowBatch, path: Path) -> int:
    """How many operations are still to be done for what the caches hold."""
    caches, _ = batch.extract(0)
    arrays = [array for layer in caches for array in layer.state[:2]]
    mx.export_to_dot(str(path), *arrays)
    return path.read_text().count("shape=rectangle")

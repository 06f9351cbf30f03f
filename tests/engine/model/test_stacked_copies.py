"""Copies that are stacks: of the right tokens, in few operations, a part of them at a time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_map
from mlx_lm.models.cache import KVCache

from engine.model import snapshots
from engine.model.block_copies import Source, TokenSpan
from engine.model.caches import new_caches
from engine.model.quantised import quantised_caches
from engine.model.snapshots import Snapshot
from engine.model.token_arrays import tokens_of
from tests.engine.devices import needs_quantised_caches
from tests.engine.model.rig import loaded, num_operations

MODEL, NUM_LAYERS = "tiny-deep", 8
BLOCK = 16
LENGTH = 6 * BLOCK + 5
SPANS = [(start, min(start + BLOCK, LENGTH)) for start in range(0, LENGTH, BLOCK)]
QUANTISED = pytest.param("quantised", marks=needs_quantised_caches)
KINDS = ["plain", QUANTISED]


def empty_row(kind: str) -> Any:
    model = loaded(MODEL).model
    return quantised_caches(model, 8)() if kind == "quantised" else new_caches(model)


@functools.cache
def row_of(kind: str) -> Any:
    model, row = loaded(MODEL).model, empty_row(kind)
    model(mx.arange(LENGTH)[None] % 4000, cache=row)
    mx.eval([layer.state for layer in row])
    return row


def block_bytes(row: Any) -> int:
    (copy,) = snapshots.capture_slices(row, SPANS[:1])
    return copy.num_bytes


def copies(row: Any, spans: Sequence[TokenSpan], *, num_blocks: float) -> list[Snapshot]:
    """Not computed yet."""
    most_bytes = int(num_blocks * block_bytes(row))
    made = snapshots.capture_slices(row, spans, stacks=True, most_bytes=most_bytes)
    return [one.content for one in made]


def by_layer(row: Any, span: TokenSpan) -> list[mx.array]:
    (copy,) = snapshots.capture_slices(row, [span])
    snapshots.compute([copy.content])
    arrays: list[mx.array] = copy.content.arrays
    return arrays


def lazily(row: Any, *, num_blocks: float) -> list[mx.array]:
    """All arrays of all blocks."""
    leaves = [tokens_of(leaf) for leaf in row]
    source = Source(leaves, stacks=True, most_bytes=int(num_blocks * block_bytes(row)))
    return [one for some in source.copies(SPANS) for content in some for one in content]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_blocks", [0, 1, 2.5, 100])
@pytest.mark.parametrize("spans", [SPANS, [SPANS[0], *SPANS[3:]], SPANS[-1:], []])
def test_each_span_gets_its_own_tokens(
    kind: str, num_blocks: float, spans: list[tuple[int, int]]
) -> None:
    row = row_of(kind)
    contents = copies(row, spans, num_blocks=num_blocks)
    snapshots.compute(contents[::-1])
    for content, span in zip(contents, spans, strict=True):
        apart = iter(by_layer(row, span))
        for layer in range(NUM_LAYERS):
            for stack in content.arrays:
                assert mx.array_equal(stack[layer], next(apart))


@pytest.mark.parametrize(("num_blocks", "at_most"), [(100, 60), (2, 120), (0, 200)])
def test_copies_take_few_operations(num_blocks: int, at_most: int) -> None:
    """An operation for each layer of each block would be 112 slices, and as many copies."""
    assert num_operations(lazily(row_of("plain"), num_blocks=num_blocks)) <= at_most


def test_what_is_copied_outlives_the_stack_alone() -> None:
    """A block that is kept holds its own bytes, not those of its neighbours."""
    row = row_of("plain")
    mx.synchronize()
    before_bytes = mx.get_active_memory()
    kept = copies(row, SPANS, num_blocks=100)
    snapshots.compute(kept)
    kept = [kept[2]]
    mx.synchronize()
    assert 0 < mx.get_active_memory() - before_bytes <= 1.1 * block_bytes(row)
    assert kept[0].arrays


@pytest.mark.parametrize("num_kept", [2, 7])
@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_stacks_take_no_more_than_they_may(num_blocks: int, num_kept: int) -> None:
    """Beside the copies themselves, and for those only that are kept."""
    row = row_of("plain")
    contents = copies(row, SPANS, num_blocks=num_blocks)[:num_kept]
    mx.synchronize()
    before_bytes = mx.get_active_memory()
    mx.reset_peak_memory()
    snapshots.compute(contents[::-1])
    mx.synchronize()
    taken_bytes = mx.get_peak_memory() - before_bytes
    held_bytes = sum(one.nbytes for content in contents for one in content.arrays)
    assert taken_bytes <= held_bytes + (num_blocks + 0.5) * block_bytes(row)


@functools.cache
def stacks_of(kind: str) -> list[tuple[Snapshot, int]]:
    """Of a prompt that ends inside the last block."""
    contents = copies(row_of(kind), SPANS, num_blocks=100)
    snapshots.compute(contents)
    lengths = [stop - start for start, stop in SPANS[:-1]]
    return list(zip(contents, [*lengths, 3], strict=True))


def restored(kind: str, *, most_bytes: int = 1 << 40) -> Any:
    row = empty_row(kind)
    snapshots.restore(row, stacks_of(kind), None, most_bytes=most_bytes)
    return row


def arrays_of(row: Any) -> list[mx.array]:
    arrays: list[mx.array] = []
    tree_map(arrays.append, [layer.state[:2] for layer in row])
    return arrays


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_layers", [0, 1, 3, 100])
def test_a_row_from_stacks_is_the_row_that_was_copied(kind: str, num_layers: int) -> None:
    """`num_layers`: so many layers' bytes may be parts of one buffer."""
    row, length = row_of(kind), LENGTH - 2
    layer_bytes = block_bytes(row) // NUM_LAYERS * KVCache.step // BLOCK
    again = restored(kind, most_bytes=num_layers * layer_bytes)
    assert {layer.offset for layer in again} == {length}
    before, after = (by_layer(one, (0, length)) for one in (row, again))
    assert all(mx.array_equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("kind", "num_arrays"),
    [("plain", 2), pytest.param("quantised", 6, marks=needs_quantised_caches)],
)
def test_a_row_takes_few_operations(kind: str, num_arrays: int) -> None:
    """Each layer is cut out of what is joined; an operation for each layer of each block would be
    seven times as many."""
    arrays = arrays_of(restored(kind))
    assert len(arrays) == num_arrays * NUM_LAYERS
    assert num_operations(arrays) <= 2 * len(arrays) + 20 * num_arrays
    assert num_operations(arrays, "Gather") == 0  # would be a second copy


@pytest.mark.parametrize(("num_layers", "num_portions"), [(0, 8), (1, 8), (3, 3), (7, 2), (8, 1)])
def test_no_more_layers_share_a_buffer_than_may(num_layers: int, num_portions: int) -> None:
    layer_bytes = block_bytes(row_of("plain")) // NUM_LAYERS * KVCache.step // BLOCK
    arrays = arrays_of(restored("plain", most_bytes=num_layers * layer_bytes))
    assert num_operations(arrays, "Concatenate") == 2 * num_portions


@pytest.mark.parametrize("kind", KINDS)
def test_rows_from_the_same_stacks_go_on_by_themselves(kind: str) -> None:
    """Their layers are parts of common buffers until they take more tokens."""
    model = loaded(MODEL).model

    def logits(row: Any, *token_ids: int) -> mx.array:
        return mx.concatenate([model(mx.array([[one]]), cache=row) for one in token_ids])

    alone = logits(restored(kind), 9, 11)
    rows = [restored(kind), restored(kind)]
    mx.eval([layer.state for row in rows for layer in row])
    first, second = rows
    begun = logits(first, 9)
    other = logits(second, 7, 8)
    mx.eval(begun, other)
    assert mx.array_equal(mx.concatenate([begun, logits(first, 11)]), alone)

"""Copies of what a row's caches hold, and rows made from copies. It does not know who keeps them.

    SLICE     keys and values of a block's own tokens, for layers that can be cut: KVCache, and
              its quantised form
    BOUNDARY  all that a layer needs at one position: RotatingKVCache, ChunkedKVCache, ArraysCache

Contents are flat lists of arrays with buffers of their own, in the order of the layers; or slices
of layers of one shape are stacked, all keys [layers, 1, H, tokens, D], then all values: on CUDA
each array takes 50 us on its way to the disk. A CPU copies from stacks more slowly. Composite
layers (CacheList) are taken apart. Rows are single and unpadded. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from engine.cache.captures import Contents, Payload
from engine.cache.plan import Needs
from engine.cache.record import ArrayBytes, Readout
from engine.model.outlets import CARRIERS, outlets_of, readout

_SLICEABLE = (KVCache, QuantizedKVCache)
_INDIVISIBLE = (RotatingKVCache, ChunkedKVCache, ArraysCache)
TokenSpan = tuple[int, int]  # from, up to
_DTYPES = {
    str(dtype): dtype
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.int64, mx.uint8, mx.uint32)
}


class Snapshot(NamedTuple):
    """Copied arrays, and what the disk's writer finds them by (outlets.py)."""

    arrays: list[mx.array]
    outlets: list[mx.array]


def needs_of(row: Sequence[Any]) -> Needs | None:
    """Which record kinds this model's layers have; None if a layer is of a kind we cannot copy."""
    kinds = {type(leaf) for leaf in _leaves(row)}
    if not kinds <= {*_SLICEABLE, *_INDIVISIBLE}:
        return None
    return Needs(
        has_slices=not kinds.isdisjoint(_SLICEABLE),
        has_boundaries=not kinds.isdisjoint(_INDIVISIBLE),
    )


def capture_slices(
    row: Sequence[Any], spans: Sequence[TokenSpan], *, stacks: bool = False, most_bytes: int = 0
) -> list[list[mx.array]]:
    """Copies of the tokens of every sliceable layer, a content for each of the spans [start, stop),
    which are in order; not evaluated yet. `stacks`: those of layers of one shape together.
    They are cut out of stacks of several spans, which take up to `most_bytes` meanwhile: a host
    that submits each operation by itself has two for each array of a span, not one for each layer.
    """
    leaves = [_tokens_of(leaf) for leaf in _leaves(row, *_SLICEABLE)]
    if not stacks or not _are_alike(leaves):
        return [
            [mx.contiguous(array) for layer in _cut(leaves, span) for array in layer]
            for span in spans
        ]
    token_bytes = sum(array.nbytes // array.shape[-2] for layer in leaves for array in layer)
    contents = []
    for group in _groups(spans, most_tokens=most_bytes // token_bytes):
        start, stop = group[0][0], group[-1][1]
        parts = zip(*_cut(leaves, (start, stop)), strict=True)
        stacked = [mx.concatenate(list(part))[:, None] for part in parts]
        contents += [
            [mx.contiguous(one[..., span[0] - start : span[1] - start, :]) for one in stacked]
            for span in group
        ]
    return contents


def _cut(leaves: list[tuple[mx.array, ...]], span: TokenSpan) -> list[list[mx.array]]:
    return [[array[..., span[0] : span[1], :] for array in layer] for layer in leaves]


def _groups(spans: Sequence[TokenSpan], *, most_tokens: int) -> Iterator[list[TokenSpan]]:
    """As many as lie within so many tokens; at least one."""
    group: list[TokenSpan] = []
    for span in spans:
        if group and span[1] - group[0][0] > most_tokens:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _are_alike(leaves: list[tuple[mx.array, ...]]) -> bool:
    """But for how many tokens they have room for."""
    kinds = {tuple((*a.shape[:-2], a.shape[-1], a.dtype) for a in layer) for layer in leaves}
    return len(kinds) == 1


def capture_boundary(row: Sequence[Any]) -> list[mx.array]:
    """Copies of every windowed, chunked and recurrent layer as it stands, not evaluated yet."""
    return [part for leaf in _leaves(row, *_INDIVISIBLE) for part in _dismantle(leaf)]


def payload(content: list[mx.array]) -> Payload:
    """A content with its size, not evaluated yet."""
    num_bytes = sum(array.nbytes for array in content)
    return Payload(Snapshot(content, outlets_of(content)), num_bytes)


def compute(snapshots: Sequence[Snapshot]) -> None:
    """Begin to."""
    mx.async_eval([[one.arrays, one.outlets] for one in snapshots])  # type: ignore[no-untyped-call]


def restore(
    row: Sequence[Any],
    slices: Sequence[tuple[Snapshot, int]],
    boundary: Snapshot | None,
    *,
    most_bytes: int = 0,
) -> None:
    """Fill an empty row, lazily. `slices` in order, each with the number of its tokens to use.
    Layers that come from stacks are parts of common buffers, of `most_bytes` at most, until they
    take more tokens."""
    contents = [(one.arrays, num_tokens) for one, num_tokens in slices]
    _restore_slices(list(_leaves(row, *_SLICEABLE)), contents, most_bytes)
    if boundary is not None:
        parts = iter(boundary.arrays)
        for leaf in _leaves(row, *_INDIVISIBLE):
            _assemble(leaf, parts)


def dump(snapshot: Snapshot) -> Readout:
    """One that is computed, as bytes for another thread."""
    return readout(*snapshot)


def revive(arrays: Sequence[ArrayBytes]) -> Payload:
    """What was dumped."""
    return payload([_array(part) for part in arrays])


def _leaves(row: Sequence[Any], *kinds: type) -> Iterator[Any]:
    for cache in row:
        if isinstance(cache, CacheList):
            yield from _leaves(cache.caches, *kinds)
        elif not kinds or isinstance(cache, kinds):
            yield cache


def _tokens_of(leaf: Any) -> tuple[mx.array, ...]:
    """Keys, then values. Quantised ones are three arrays each: numbers, scales, biases."""
    if isinstance(leaf, QuantizedKVCache):
        return (*leaf.keys, *leaf.values)
    return leaf.keys, leaf.values


def _restore_slices(
    leaves: list[Any], slices: Sequence[tuple[list[mx.array], int]], most_bytes: int
) -> None:
    if not slices:
        return
    total = sum(num_tokens for _, num_tokens in slices)
    room = KVCache.step - total % KVCache.step
    if all(_is_stacked(content) for content, _ in slices):
        arrays = _joined_stacks(slices, len(leaves), room=room, most_bytes=most_bytes)
    else:
        layers = [(_layers_of(content, len(leaves)), num_tokens) for content, num_tokens in slices]
        arrays = _joined(layers, room=room)
    for leaf in leaves:
        if isinstance(leaf, QuantizedKVCache):
            keys, values = ([next(arrays) for _ in range(3)] for _ in range(2))
            leaf.state = (keys, values, total, leaf.group_size, leaf.bits)
        else:
            leaf.state = (next(arrays), next(arrays), total)


def _is_stacked(content: list[mx.array]) -> bool:
    return content[0].ndim == 5


def _joined_stacks(
    slices: Sequence[tuple[list[mx.array], int]], num_layers: int, *, room: int, most_bytes: int
) -> Iterator[mx.array]:
    """The arrays of each layer as `_joined` has them: stacks are joined, of several layers at once,
    so that there is not an operation for each layer of each slice."""
    num_tokens = room + sum(num_tokens for _, num_tokens in slices)
    layer_bytes = sum(one.nbytes // (num_layers * one.shape[-2]) for one in slices[0][0])
    portion = max(1, most_bytes // (layer_bytes * num_tokens))
    for first in range(0, num_layers, portion):
        some = [([one[first : first + portion] for one in part], n) for part, n in slices]
        joined = list(_joined(some, room=room))
        for layer in range(len(joined[0])):
            yield from (one[layer] for one in joined)


def _layers_of(content: list[mx.array], num_layers: int) -> list[mx.array]:
    """Stacked or not, in the order of the layers."""
    if not _is_stacked(content):
        return content
    return [part[layer] for layer in range(num_layers) for part in content]


def _joined(slices: Sequence[tuple[list[mx.array], int]], *, room: int) -> Iterator[mx.array]:
    """Each array of the contents, over all slices, with room for the tokens that come next:
    growing would copy all of it once more."""
    for at in range(len(slices[0][0])):
        parts = [_first_tokens(content[at], num_tokens) for content, num_tokens in slices]
        *before, _, width = parts[0].shape
        empty = mx.zeros((*before, room, width), parts[0].dtype)
        yield mx.concatenate([*parts, empty], axis=-2)


def _first_tokens(array: mx.array, num_tokens: int) -> mx.array:
    return array if array.shape[-2] == num_tokens else array[..., :num_tokens, :]


def _dismantle(leaf: Any) -> list[mx.array]:
    """A windowed or chunked layer: its counters, keys, values. A recurrent one: a count, then its
    arrays."""
    if isinstance(leaf, RotatingKVCache):
        keys, values, *counters = leaf.state
        return [mx.array(counters, mx.int32), mx.contiguous(keys), mx.contiguous(values)]
    if isinstance(leaf, ChunkedKVCache):
        return _current_chunk(leaf)
    arrays, _, _ = leaf.state
    held = [mx.zeros((0,)) if array is None else mx.contiguous(array) for array in arrays]
    return [mx.array([len(held)], mx.int32), *held]


def _current_chunk(leaf: ChunkedKVCache) -> list[mx.array]:
    """Tokens of earlier chunks are not looked at any more: at a chunk's end nothing is needed."""
    chunk_start = leaf.offset - leaf.offset % leaf.chunk_size
    if leaf.keys is None:  # restored at a chunk's end
        return [mx.array([leaf.offset, chunk_start], mx.int32), mx.zeros((0,)), mx.zeros((0,))]
    used = slice(chunk_start - leaf.start_position, leaf.offset - leaf.start_position)
    arrays = (mx.contiguous(array[..., used, :]) for array in (leaf.keys, leaf.values))
    return [mx.array([leaf.offset, chunk_start], mx.int32), *arrays]


def _assemble(leaf: Any, parts: Iterator[mx.array]) -> None:
    if isinstance(leaf, ArraysCache):
        (count,) = _seen(next(parts))
        held = [next(parts) for _ in range(count)]
        leaf.state = ([array if array.size else None for array in held], None, None)
        return
    counters = _seen(next(parts))
    keys, values = next(parts), next(parts)
    if isinstance(leaf, RotatingKVCache):
        leaf.state = (keys + 0, values + 0, *counters)
        return
    offset, chunk_start = counters
    is_empty = offset == chunk_start
    arrays = (None, None) if is_empty else (keys, values)
    leaf.state = (*arrays, offset, leaf.chunk_size, chunk_start)


def _seen(counters: mx.array) -> list[int]:
    """Those of a copy: what is looked at does not stay where the disk's writer was told it is."""
    numbers: Any = (counters + 0).tolist()
    return list(numbers)


def _array(part: ArrayBytes) -> mx.array:
    dtype = _DTYPES[part.dtype]
    carrier = str(CARRIERS.get(dtype, dtype)).removeprefix("mlx.core.")
    plain = np.frombuffer(part.data, dtype=np.dtype(carrier)).reshape(part.shape)
    return mx.array(plain).view(dtype)


CONTENTS = Contents(compute=compute, dump=dump, revive=revive)

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
from functools import partial
from typing import Any

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

from engine.cache.captures import Payload
from engine.cache.plan import Needs
from engine.cache.record import ArrayBytes

# dtypes that numpy has no name for travel as integers of the same width
_CARRIERS = {mx.bfloat16: mx.uint16}
_SLICEABLE = (KVCache, QuantizedKVCache)
_INDIVISIBLE = (RotatingKVCache, ChunkedKVCache, ArraysCache)
_DTYPES = {
    str(dtype): dtype
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.int64, mx.uint8, mx.uint32)
}


def needs_of(row: Sequence[Any]) -> Needs | None:
    """Which record kinds this model's layers have; None if a layer is of a kind we cannot copy."""
    kinds = {type(leaf) for leaf in _leaves(row)}
    if not kinds <= {*_SLICEABLE, *_INDIVISIBLE}:
        return None
    return Needs(
        has_slices=not kinds.isdisjoint(_SLICEABLE),
        has_boundaries=not kinds.isdisjoint(_INDIVISIBLE),
    )


def capture_slice(
    row: Sequence[Any], start: int, stop: int, *, stacks: bool = False
) -> list[mx.array]:
    """Copies of tokens [start, stop) of every sliceable layer, not evaluated yet. `stacks`: those
    of layers of one shape together."""
    layers = [
        [array[..., start:stop, :] for array in _tokens_of(leaf)]
        for leaf in _leaves(row, *_SLICEABLE)
    ]
    if stacks and _are_alike(layers):
        # A stack of one layer is no copy yet
        return [mx.contiguous(mx.stack(part)) for part in map(list, zip(*layers, strict=True))]
    return [mx.contiguous(array) for layer in layers for array in layer]


def _are_alike(layers: list[list[mx.array]]) -> bool:
    return len({tuple((one.shape, one.dtype) for one in layer) for layer in layers}) == 1


def capture_boundary(row: Sequence[Any]) -> list[mx.array]:
    """Copies of every windowed, chunked and recurrent layer as it stands, not evaluated yet."""
    return [part for leaf in _leaves(row, *_INDIVISIBLE) for part in _dismantle(leaf)]


def payload(content: list[mx.array]) -> Payload:
    """A content with its size, not evaluated yet."""
    num_bytes = sum(array.nbytes for array in content)
    return Payload(content, num_bytes, compute=partial(mx.async_eval, content))


def restore(
    row: Sequence[Any],
    slices: Sequence[tuple[list[mx.array], int]],
    boundary: list[mx.array] | None,
) -> None:
    """Fill an empty row, lazily. `slices` in order, each with the number of its tokens to use."""
    _restore_slices(list(_leaves(row, *_SLICEABLE)), slices)
    if boundary is not None:
        parts = iter(boundary)
        for leaf in _leaves(row, *_INDIVISIBLE):
            _assemble(leaf, parts)


def dump(content: Sequence[mx.array]) -> list[ArrayBytes]:
    """A content as bytes that another thread may read; nothing is copied."""
    carriers = [array.view(_CARRIERS.get(array.dtype, array.dtype)) for array in content]
    mx.eval(carriers)
    return [
        ArrayBytes(str(array.dtype), tuple(array.shape), memoryview(carrier))  # type: ignore[arg-type]
        for array, carrier in zip(content, carriers, strict=True)
    ]


def revive(arrays: Sequence[ArrayBytes]) -> Payload:
    """The content that was dumped."""
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


def _restore_slices(leaves: list[Any], slices: Sequence[tuple[list[mx.array], int]]) -> None:
    if not slices:
        return
    total = sum(num_tokens for _, num_tokens in slices)
    layers = [(_layers_of(content, len(leaves)), num_tokens) for content, num_tokens in slices]
    arrays = _joined(layers, room=KVCache.step - total % KVCache.step)
    for leaf in leaves:
        if isinstance(leaf, QuantizedKVCache):
            keys, values = ([next(arrays) for _ in range(3)] for _ in range(2))
            leaf.state = (keys, values, total, leaf.group_size, leaf.bits)
        else:
            leaf.state = (next(arrays), next(arrays), total)


def _layers_of(content: list[mx.array], num_layers: int) -> list[mx.array]:
    """Stacked or not, in the order of the layers."""
    if content[0].ndim == 4:
        return content
    return [part[layer] for layer in range(num_layers) for part in content]


def _joined(slices: Sequence[tuple[list[mx.array], int]], *, room: int) -> Iterator[mx.array]:
    """Each array of the contents, over all slices, with room for the tokens that come next:
    growing would copy all of it once more."""
    for at in range(len(slices[0][0])):
        parts = [_first_tokens(content[at], num_tokens) for content, num_tokens in slices]
        *before, _, width = parts[0].shape
        yield mx.concatenate([*parts, mx.zeros((*before, room, width), parts[0].dtype)], axis=2)


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
        count: Any = next(parts).item()
        held = [next(parts) for _ in range(count)]
        leaf.state = ([array if array.size else None for array in held], None, None)
        return
    counters: Any = next(parts).tolist()
    keys, values = next(parts), next(parts)
    if isinstance(leaf, RotatingKVCache):
        leaf.state = (keys + 0, values + 0, *counters)
        return
    offset, chunk_start = counters
    is_empty = offset == chunk_start
    arrays = (None, None) if is_empty else (keys, values)
    leaf.state = (*arrays, offset, leaf.chunk_size, chunk_start)


def _array(part: ArrayBytes) -> mx.array:
    dtype = _DTYPES[part.dtype]
    carrier = str(_CARRIERS.get(dtype, dtype)).removeprefix("mlx.core.")
    plain = np.frombuffer(part.data, dtype=np.dtype(carrier)).reshape(part.shape)
    return mx.array(plain).view(dtype)

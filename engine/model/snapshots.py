"""Copies of what a row's caches hold, and rows made from copies. It does not know who keeps them.

    SLICE     keys and values of a block's own tokens, for layers that can be cut: KVCache, and
              its quantised form
    BOUNDARY  all that a layer needs at one position: RotatingKVCache, ChunkedKVCache, ArraysCache

Contents are flat lists of arrays with buffers of their own, in the order of the layers; slices may
be stacks of them (block_copies.py). Composite layers (CacheList) are taken apart. Rows are single
and unpadded. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from engine.cache.captures import Contents, Payload
from engine.cache.plan import Needs
from engine.cache.record import ArrayBytes, Readout
from engine.model.block_copies import Source, TokenSpan, joined
from engine.model.outlets import CARRIERS, outlets_of, readout
from engine.model.token_arrays import PLAIN as _SLICEABLE
from engine.model.token_arrays import tokens_of

_INDIVISIBLE = (RotatingKVCache, ChunkedKVCache, ArraysCache)
_DTYPES = {
    str(dtype): dtype
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.int64, mx.uint8, mx.uint32)
}


class Cut(NamedTuple):
    source: Source
    span: TokenSpan


@dataclasses.dataclass(slots=True, eq=False)
class Snapshot:
    """Copied arrays, and what the disk's writer finds them by (outlets.py). A slice has none until
    it is computed: it is known then which of its neighbours are kept."""

    arrays: list[mx.array]
    outlets: list[mx.array] = dataclasses.field(default_factory=list)
    cut: Cut | None = None


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
) -> list[Payload]:
    """The tokens of every sliceable layer, for each of the spans [start, stop). `stacks` and
    `most_bytes` as a Source has them."""
    leaves = [tokens_of(leaf) for leaf in _leaves(row, *_SLICEABLE)]
    source = Source(leaves, stacks=stacks, most_bytes=most_bytes)
    token_bytes = source.token_bytes
    return [
        Payload(Snapshot([], cut=Cut(source, span)), token_bytes * (span[1] - span[0]))
        for span in spans
    ]


def capture_boundary(row: Sequence[Any]) -> list[mx.array]:
    """Copies of every windowed, chunked and recurrent layer as it stands, not evaluated yet."""
    return [part for leaf in _leaves(row, *_INDIVISIBLE) for part in _dismantle(leaf)]


def payload(content: list[mx.array]) -> Payload:
    """A content with its size, not evaluated yet."""
    return Payload(Snapshot(content), sum(array.nbytes for array in content))


def compute(snapshots: Sequence[Snapshot]) -> None:
    """Begin to. What slices are cut out of is alive for one portion of them at a time: all portions
    but the last are waited for."""
    last = [one for one in snapshots if one.cut is None]
    portions = list(_made(snapshots))
    for portion in portions[:-1]:
        mx.eval(_with_outlets(portion))
    for portion in portions[-1:]:
        last += portion
    mx.async_eval(_with_outlets(last))  # type: ignore[no-untyped-call]


def _made(snapshots: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Slices that have got their arrays, lazily, as they are to be computed together."""
    cuts: dict[Source, list[tuple[TokenSpan, Snapshot]]] = {}
    for one in snapshots:
        if one.cut is not None:
            cuts.setdefault(one.cut.source, []).append((one.cut.span, one))
            one.cut = None
    for source, slices in cuts.items():
        slices.sort(key=lambda pair: pair[0])
        left = (one for _, one in slices)
        for contents in source.copies([span for span, _ in slices]):
            portion = list(itertools.islice(left, len(contents)))
            for one, content in zip(portion, contents, strict=True):
                one.arrays = content
            yield portion


def _with_outlets(snapshots: Sequence[Snapshot]) -> list[list[mx.array]]:
    for one in snapshots:
        one.outlets = outlets_of(one.arrays)
    return [[*one.arrays, *one.outlets] for one in snapshots]


def restore(
    row: Sequence[Any],
    slices: Sequence[tuple[Snapshot, int]],
    boundary: Snapshot | None,
    *,
    most_bytes: int = 0,
) -> None:
    """Fill an empty row, lazily. `slices` in order, each with the number of its tokens to use.
    `most_bytes`: of buffers that several layers may share until they take more tokens."""
    blocks = [(one.arrays, num_tokens) for one, num_tokens in slices]
    _restore_slices(list(_leaves(row, *_SLICEABLE)), blocks, most_bytes)
    if boundary is not None:
        parts = iter(boundary.arrays)
        for leaf in _leaves(row, *_INDIVISIBLE):
            _assemble(leaf, parts)


def dump(snapshot: Snapshot) -> Readout:
    """One that is computed, as bytes for another thread."""
    return readout(snapshot.arrays, snapshot.outlets)


def revive(arrays: Sequence[ArrayBytes]) -> Payload:
    """What was dumped."""
    return payload([_array(part) for part in arrays])


def _leaves(row: Sequence[Any], *kinds: type) -> Iterator[Any]:
    for cache in row:
        if isinstance(cache, CacheList):
            yield from _leaves(cache.caches, *kinds)
        elif not kinds or isinstance(cache, kinds):
            yield cache


def _restore_slices(
    leaves: list[Any], blocks: Sequence[tuple[list[mx.array], int]], most_bytes: int
) -> None:
    if not blocks:
        return
    total = sum(num_tokens for _, num_tokens in blocks)
    arrays = joined(blocks, len(leaves), most_bytes=most_bytes)
    for leaf in leaves:
        if isinstance(leaf, QuantizedKVCache):
            keys, values = ([next(arrays) for _ in range(3)] for _ in range(2))
            leaf.state = (keys, values, total, leaf.group_size, leaf.bits)
        else:
            leaf.state = (next(arrays), next(arrays), total)


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

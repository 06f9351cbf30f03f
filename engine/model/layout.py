"""Rows of keys and values under each other in new buffers, their ends level, with room.

    [ . . a a a a | ]      padded on the left, a column for each token
    [ . . . b b b | ]      behind the last one zeros, until a step's tokens come there

Callers evaluate what is made here, array by array. It does not know other kinds of layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache


class Kept(NamedTuple):
    """Rows that stay in padded caches: where they are, and how many tokens each holds."""

    places: list[int]
    lengths: list[int]
    is_everyone: bool


def level(rows: list[KVCache]) -> KVCache:
    """Rows of one length."""
    keys, values = _laid_out(list(map(_part, rows)))
    return KVCache.from_state((keys, values, rows[0].size()))


def merged(rows: list[KVCache]) -> BatchKVCache:
    """As mlx-lm merges them."""
    lengths = [row.size() for row in rows]
    return _padded(list(map(_part, rows)), lengths)


def extended(present: BatchKVCache, kept: Kept, rows: list[KVCache]) -> BatchKVCache:
    """As mlx-lm filters and then extends them, in one copy."""
    parts = _kept_parts(present, kept) + list(map(_part, rows))
    lengths = kept.lengths + [row.size() for row in rows]
    return _padded(parts, lengths)


class _Part(NamedTuple):
    """Keys and values of rows that hold so many tokens, at the front; none where they hold none."""

    num_tokens: int
    keys: Any
    values: Any


def _part(row: KVCache) -> _Part:
    return _Part(row.size(), row.keys, row.values)


def _kept_parts(layer: BatchKVCache, kept: Kept) -> list[_Part]:
    """Neighbours together, without the padding that none of them needs."""
    keys, values, *_, end = layer.state
    longest = max(kept.lengths)
    return [
        _Part(longest, *(one[first:last, :, end - longest : end] for one in (keys, values)))
        for first, last in _runs(kept.places)
    ]


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges [first, last)."""
    runs: list[tuple[int, int]] = []
    for place in places:
        first = runs.pop()[0] if runs and runs[-1][1] == place else place
        runs.append((first, place + 1))
    return runs


def _padded(parts: list[_Part], lengths: list[int]) -> BatchKVCache:
    keys, values = _laid_out(parts)
    offset, longest = mx.array(lengths), max(lengths)
    return BatchKVCache.from_state((keys, values, offset, longest - offset, longest))


def _laid_out(parts: list[_Part]) -> tuple[mx.array, mx.array]:
    """The rows of several caches under each other, their ends level, with room for the next token:
    a full buffer would be copied once more by the next step."""
    longest = max(part.num_tokens for part in parts)
    keys = [(part.num_tokens, part.keys) for part in parts]
    values = [(part.num_tokens, part.values) for part in parts]
    return _place(keys, longest), _place(values, longest)


def _place(parts: list[tuple[int, Any]], longest: int) -> mx.array:
    known = next(array for _, array in parts if array is not None)
    counts = [1 if array is None else array.shape[0] for _, array in parts]
    capacity = (longest // KVCache.step + 1) * KVCache.step
    placed = mx.zeros((sum(counts), known.shape[1], capacity, known.shape[3]), known.dtype)
    first = 0
    for (length, array), count in zip(parts, counts, strict=True):
        if length:
            start = longest - length
            placed[first : first + count, :, start:longest] = array[..., :length, :]
        first += count
    return placed

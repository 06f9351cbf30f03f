"""Rows of keys and values under each other in new buffers, their ends level, with room.

    [ . . a a a a | ]      padded on the left, a column for each token
    [ . . . b b b | ]      behind the last one zeros, until a step's tokens come there

Callers evaluate what is made here, array by array. It does not know other kinds of layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.model.token_arrays import length_of, padded, plain, tokens_of


class Kept(NamedTuple):
    """Rows that stay in padded caches: where they are, and how many tokens each holds."""

    places: list[int]
    lengths: list[int]
    is_everyone: bool


def level(rows: list[Any]) -> Any:
    """Plain rows of one length."""
    return plain(rows[0], _laid_out(list(map(_part, rows))), length_of(rows[0]))


def merged(rows: list[Any]) -> Any:
    """Plain rows, as mlx-lm merges them."""
    parts = list(map(_part, rows))
    return padded(rows[0], _laid_out(parts), list(map(length_of, rows)))


def extended(present: Any, kept: Kept, rows: list[Any]) -> Any:
    """As mlx-lm filters and then extends them, in one copy."""
    parts = _kept_parts(present, kept) + list(map(_part, rows))
    return padded(present, _laid_out(parts), kept.lengths + list(map(length_of, rows)))


class _Part(NamedTuple):
    """What rows keep that hold so many tokens, at the front; nothing where they hold none."""

    num_tokens: int
    arrays: tuple[mx.array, ...]


def _part(row: Any) -> _Part:
    return _Part(length_of(row), tokens_of(row))


def _kept_parts(layer: Any, kept: Kept) -> list[_Part]:
    """Neighbours together, without the padding that none of them needs."""
    arrays, end, longest = tokens_of(layer), length_of(layer), max(kept.lengths)
    return [
        _Part(longest, tuple(one[first:last, :, end - longest : end] for one in arrays))
        for first, last in _runs(kept.places)
    ]


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges [first, last)."""
    runs: list[tuple[int, int]] = []
    for place in places:
        first = runs.pop()[0] if runs and runs[-1][1] == place else place
        runs.append((first, place + 1))
    return runs


def _laid_out(parts: list[_Part]) -> list[mx.array]:
    """The rows of several caches under each other, their ends level, with room for the next token:
    a full buffer would be copied once more by the next step."""
    longest = max(part.num_tokens for part in parts)
    num_arrays = max(len(part.arrays) for part in parts)
    return [
        _place(
            [(part.num_tokens, part.arrays[one] if part.arrays else None) for part in parts],
            longest,
        )
        for one in range(num_arrays)
    ]


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

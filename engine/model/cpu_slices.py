"""Attention of slices on x86 processors, in NumPy: its loops use the processor's vectors, so that
an exponential takes 1.6 ns, and MLX's go one by one at 16 to 28.

    softmax(q k^T * scale + mask) v,  heads grouped as they share keys

is computed in blocks that stay in the processor's cache, of rows, then heads, then queries; keys
that no query of a block may see are left out. So scores take no memory to speak of, MLX knows
nothing of them, and what comes before in the model's graph is evaluated here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

BLOCK_SCORES = 2**17
_LEAST_QUERIES = 4  # of a block, as its keys are read anew
_LOWEST = np.finfo(np.float32).min  # of what is hidden; as in MLX, all hidden are equal

Floats = npt.NDArray[np.float32]
Block = tuple[slice, slice, slice]  # rows, key heads, queries


def in_blocks(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    mask: mx.array | str | None,
    sinks: mx.array | None,
) -> mx.array:
    """queries [B, H, n, D], keys and values [B, Hkv, L, D], all float32; result [B, H, n, D].

    `mask` [B or 1, H or 1, n or 1, L] or of fewer axes: booleans, or numbers to add; "causal": the
    last query sees all keys. `sinks` [H]: a score of each head that draws on no value.
    """
    queries = queries * scale
    mx.eval(queries, keys, values)
    attended = attend(
        np.asarray(queries),
        np.asarray(keys),
        np.asarray(values),
        is_causal=isinstance(mask, str),
        mask=mask if isinstance(mask, mx.array) else None,
        sinks=None if sinks is None else np.asarray(sinks),
    )
    return mx.array(attended)


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    *,
    is_causal: bool,
    mask: mx.array | None = None,
    sinks: Floats | None = None,
) -> Floats:
    """The same of arrays of NumPy; `queries` are scaled already."""
    rows, heads, num_queries, _ = queries.shape
    key_heads, num_keys = keys.shape[1:3]
    shape = (rows, key_heads, heads // key_heads, num_queries)
    all_queries = queries.reshape(*shape, -1)
    all_keys, all_values = keys.swapaxes(-1, -2), values
    given = None if mask is None else _by_key_head(mask, (*shape, num_keys))
    sink = None if sinks is None else sinks.reshape(key_heads, -1, 1, 1)
    attended = np.empty((*shape, values.shape[-1]), np.float32)
    space = np.empty(_most_scores(shape, num_keys), np.float32)  # new pages would cost time
    for row, head, query in _blocks(shape, num_keys):
        block = all_queries[row, head, :, query]
        seen = num_keys - num_queries + query.stop if is_causal else num_keys
        of_heads = block.reshape(*block.shape[:2], -1, block.shape[-1])  # they share their keys
        size = math.prod(of_heads.shape[:3]) * seen
        lines = space[:size].reshape(*of_heads.shape[:3], seen)
        np.matmul(of_heads, all_keys[row, head, :, :seen], out=lines)
        scores = lines.reshape(*block.shape[:-1], seen)
        if given is not None:
            _add_mask(scores, given[row, head, :, query])
        elif is_causal:
            _hide_later(scores)
        sums = _exponentiate(scores, None if sink is None else sink[head])
        drawn = (lines @ all_values[row, head, :seen]).reshape(*block.shape[:-1], -1)
        np.divide(drawn, sums, out=attended[row, head, :, query])
    return attended.reshape(rows, heads, num_queries, -1)


def attend_next(
    queries: Floats,
    keys: Floats,
    values: Floats,
    own_keys: Floats,
    own_values: Floats,
    *,
    hidden: npt.NDArray[np.bool_] | None,
) -> Floats:
    """Of one token of each row, [B, H, 1, D] and [B, Hkv, 1, D], which sees itself and `keys` and
    `values` [B, Hkv, L, D] but for what is `hidden` [B, 1, 1, L]. Queries are scaled already."""
    rows, key_heads, num_keys, _ = keys.shape
    grouped = queries.reshape(rows, key_heads, -1, queries.shape[-1])
    scores = np.empty((*grouped.shape[:-1], num_keys + 1), np.float32)
    earlier, own = scores[..., :num_keys], scores[..., num_keys:]
    np.matmul(grouped, keys.swapaxes(-1, -2), out=earlier)
    np.matmul(grouped, own_keys.swapaxes(-1, -2), out=own)
    if hidden is not None:
        np.copyto(earlier, _LOWEST, where=hidden)
    sums = _exponentiate(scores, None)
    attended: Floats = np.matmul(earlier, values)
    attended += own * own_values
    attended /= sums
    return attended.reshape(queries.shape)


def _most_scores(shape: tuple[int, int, int, int], num_keys: int) -> int:
    *_, group, num_queries = shape
    least = group * min(num_queries, _LEAST_QUERIES) * num_keys
    return min(math.prod(shape) * num_keys, max(BLOCK_SCORES, least))


def _blocks(shape: tuple[int, int, int, int], num_keys: int) -> Iterator[Block]:
    """`shape`: rows, key heads, query heads of each, queries."""
    rows, key_heads, group, num_queries = shape
    of_query = group * num_keys
    of_head = of_query * num_queries
    of_row = of_head * key_heads
    if of_row <= BLOCK_SCORES:
        sizes = (BLOCK_SCORES // of_row, key_heads, num_queries)
    elif of_head <= BLOCK_SCORES:
        sizes = (1, BLOCK_SCORES // of_head, num_queries)
    else:
        sizes = (1, 1, max(_LEAST_QUERIES, BLOCK_SCORES // of_query))
    return itertools.product(
        _portions(rows, sizes[0]),
        _portions(key_heads, sizes[1]),
        _portions(num_queries, sizes[2]),
    )


def _portions(whole: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, whole)) for start in range(0, whole, size)]


def _by_key_head(mask: mx.array, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """[B, Hkv, group, n, L], nothing of it copied."""
    given = np.asarray(mask if mask.dtype == mx.bool_ else mask.astype(mx.float32))
    given = given.reshape((1,) * (4 - given.ndim) + given.shape)
    heads = given.shape[1]
    by_head = (1, 1) if heads == 1 else shape[1:3]
    return np.broadcast_to(given.reshape(given.shape[0], *by_head, *given.shape[2:]), shape)


def _hide_later(scores: Floats) -> None:
    """`scores` [..., n, L]: the last query sees all keys, each one before it a key less."""
    num_queries, num_keys = scores.shape[-2:]
    is_later = ~np.tri(num_queries, dtype=np.bool_)
    np.copyto(scores[..., num_keys - num_queries :], _LOWEST, where=is_later)


def _add_mask(scores: Floats, mask: npt.NDArray[Any]) -> None:
    if mask.dtype == np.bool_:
        np.copyto(scores, _LOWEST, where=~mask)
    else:
        scores += mask


def _exponentiate(scores: Floats, sinks: Floats | None) -> Floats:
    """In place, from each line's highest score; the lines' sums [..., n, 1]."""
    with np.errstate(invalid="ignore"):  # what is no number stays none, and ends its own row
        highest = scores.max(axis=-1, keepdims=True)
        if sinks is not None:
            highest = np.maximum(highest, sinks)
        scores -= highest
        np.exp(scores, out=scores)
    sums: Floats = scores.sum(axis=-1, keepdims=True)
    return sums if sinks is None else sums + np.exp(sinks - highest)

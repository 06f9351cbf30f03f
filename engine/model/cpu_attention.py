"""Attention on x86 processors, where MLX computes an exponential in 16 to 28 ns, one by one.

Slices are computed in NumPy (cpu_slices.py). Decode steps have too few scores to wait for that;
they draw on powers of two, which take MLX less than half as long:

    softmax(s) = 2^(s' - max s') / sum,  s' = s log2(e) = (q log2(e) scale) k^T + mask log2(e)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx_lm.models import base

from engine.model import cpu_slices
from engine.model.cpu_activation import LOG2_E

_LEAST_SCORES = 2**12  # fewer are quicker in MLX's own, which is one call from Python

_is_unwanted = False


@contextmanager
def unwanted() -> Iterator[None]:
    """Nobody will look at what attention gives meanwhile: slices are not computed lazily here."""
    global _is_unwanted
    _is_unwanted = True
    try:
        yield
    finally:
        _is_unwanted = False


def attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    """As mlx-lm's: queries [B, H, n, D], keys and values [B, Hkv, L, D], result [B, H, n, D].

    Few scores, quantised caches, other numbers than float32 and sinks of single queries stay with
    MLX.
    """
    if _is_unwanted and isinstance(values, mx.array):
        return mx.zeros((*queries.shape[:-1], values.shape[-1]), queries.dtype)
    if not hasattr(cache, "bits") and _is_worth_it(queries, keys, values):
        if queries.shape[2] > 1:
            return cpu_slices.in_blocks(queries, keys, values, scale=scale, mask=mask, sinks=sinks)
        if sinks is None:
            return _of_one_query(queries, keys, values, scale=scale, mask=mask)
    result: mx.array = base.scaled_dot_product_attention(
        queries, keys, values, cache, scale, mask, sinks
    )
    return result


def _is_worth_it(queries: mx.array, keys: mx.array, values: mx.array) -> bool:
    rows, heads, num_queries, _ = queries.shape
    num_scores = rows * heads * num_queries * keys.shape[2]
    return num_scores >= _LEAST_SCORES and all(
        one.dtype == mx.float32 for one in (queries, keys, values)
    )


def _of_one_query(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    mask: mx.array | str | None,
) -> mx.array:
    """`mask` [B or 1, H or 1, 1, L] or smaller: booleans, or numbers to add; the last query sees
    all that is "causal"."""
    rows, heads, _, size = queries.shape
    key_heads, num_keys = keys.shape[1:3]
    grouped = (queries * (scale * LOG2_E)).reshape(rows, key_heads, heads // key_heads, size)
    scores = (grouped @ keys.swapaxes(-1, -2)).reshape(rows, heads, 1, num_keys)
    if isinstance(mask, mx.array):
        is_boolean = mask.dtype == mx.bool_
        scores = mx.where(mask, scores, -mx.inf) if is_boolean else scores + mask * LOG2_E
    powers = mx.power(2.0, scores - scores.max(axis=-1, keepdims=True))
    sums = powers.sum(axis=-1, keepdims=True)
    attended = powers.reshape(rows, key_heads, -1, num_keys) @ values
    return attended.reshape(rows, heads, 1, -1) / sums

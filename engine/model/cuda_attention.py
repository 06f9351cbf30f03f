"""Attention on CUDA, of decode steps and short slices.

MLX's fused kernel is three to seven times as slow there once rows of unequal length bring a mask
array, and for every shape that it has not met it first plans for 40 ms. The same in plain matrix
products does not mind the mask, given whole columns of keys (aligned_rows.py), nor new shapes:

    softmax(q k^T * scale + mask) v,  heads grouped as they share keys
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models import base

from engine.core.slicing import ANY_SHAPE_SCORES


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

    Long slices, equal rows, sinks and quantised caches stay with the fused kernel.
    """
    if sinks is None and not hasattr(cache, "bits"):
        num_queries = queries.shape[2]
        if num_queries == 1 and isinstance(mask, mx.array):
            return composed(queries, keys, values, scale=scale, mask=mask)
        if num_queries > 1 and queries.shape[0] * num_queries * keys.shape[2] <= ANY_SHAPE_SCORES:
            return composed_slice(queries, keys, values, scale=scale, mask=mask)
    result: mx.array = base.scaled_dot_product_attention(
        queries, keys, values, cache, scale, mask, sinks
    )
    return result


def composed(
    queries: mx.array, keys: mx.array, values: mx.array, *, scale: float, mask: mx.array
) -> mx.array:
    """One query per row. `mask` [B, 1, 1, L] or smaller: booleans, or numbers to add."""
    rows, heads, _, size = queries.shape
    key_heads = keys.shape[1]
    grouped = (queries * scale).reshape(rows, key_heads, heads // key_heads, size)
    weights = _weights(grouped @ keys.swapaxes(-1, -2), mask)
    return (weights @ values).reshape(rows, heads, 1, size)


def composed_slice(
    queries: mx.array, keys: mx.array, values: mx.array, *, scale: float, mask: Any
) -> mx.array:
    """Several queries per row. `mask`: None, "causal", or an array [n, L] or [B, 1, n, L]."""
    rows, heads, num_queries, size = queries.shape
    key_heads, num_keys = keys.shape[1:3]
    grouped = (queries * scale).reshape(rows, key_heads, -1, size)
    scores = (grouped @ keys.swapaxes(-1, -2)).reshape(rows, heads, num_queries, num_keys)
    if isinstance(mask, str):
        mask = base.create_causal_mask(num_queries, num_keys - num_queries)
    weights = _weights(scores, mask).reshape(rows, key_heads, -1, num_keys)
    return (weights @ values).reshape(rows, heads, num_queries, size)


def _weights(scores: mx.array, mask: mx.array | None) -> mx.array:
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    return mx.softmax(scores, axis=-1, precise=True)

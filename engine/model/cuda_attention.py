"""Attention on CUDA: decode steps by our own kernel, short slices by plain matrix products.

For every shape that it has not met MLX's fused kernel first plans for 40 ms. The same in matrix
products does not mind new shapes:

    softmax(q k^T * scale + mask) v,  heads grouped as they share keys
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models import base
from mlx_lm.models.cache import BatchKVCache

from engine.core.slicing import ANY_SHAPE_SCORES
from engine.model import cuda_decode


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

    Long slices, a row that is alone, sinks and quantised caches stay with the fused kernel.
    """
    if sinks is None and not hasattr(cache, "bits"):
        if cuda_decode.suits(queries, keys, values, mask):
            starts = cache.left_padding if isinstance(cache, BatchKVCache) else None
            return cuda_decode.attend(queries, keys, values, scale=scale, mask=mask, starts=starts)
        num_queries = queries.shape[2]
        if num_queries > 1 and queries.shape[0] * num_queries * keys.shape[2] <= ANY_SHAPE_SCORES:
            return composed_slice(queries, keys, values, scale=scale, mask=mask)
    if mask is None and isinstance(cache, BatchKVCache):  # a step that knows of the kernel
        mask = (mx.arange(keys.shape[2]) >= cache.left_padding[:, None])[:, None, None]
    result: mx.array = base.scaled_dot_product_attention(
        queries, keys, values, cache, scale, mask, sinks
    )
    return result


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
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    weights = mx.softmax(scores, axis=-1, precise=True).reshape(rows, key_heads, -1, num_keys)
    return (weights @ values).reshape(rows, heads, num_queries, size)

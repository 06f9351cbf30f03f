"""What our kernels on CUDA do, in MLX's own operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models import activations

from engine.model.cuda_heads import Heads


def prepare(
    heads: Heads, projected: mx.array, positions: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """As cuda_heads.prepare."""
    form = heads.form
    at = form.num_heads, form.num_heads + form.num_key_heads
    parts = mx.split(projected.reshape(*projected.shape[:2], -1, form.size), at, axis=2)
    queries, keys, values = (part.swapaxes(1, 2) for part in parts)
    first, second = heads.weights
    return (
        _rotated(heads, queries, first, positions),
        _rotated(heads, keys, second, positions),
        values,
    )


def gate(halves: mx.array) -> mx.array:
    """As cuda_gate.gate."""
    closed, up = mx.split(halves, 2, axis=-1)
    gated: mx.array = activations.swiglu(closed, up)
    return gated


def _rotated(heads: Heads, one: mx.array, weight: mx.array, positions: Any) -> mx.array:
    form = heads.form
    if form.eps is not None:
        one = mx.fast.rms_norm(one, weight, form.eps)
    return mx.fast.rope(
        one,
        form.rotated,
        traditional=form.are_neighbours,
        base=None if form.has_freqs else form.base,
        scale=form.scale,
        offset=positions,
        freqs=heads.freqs if form.has_freqs else None,
    )


def attend(*given: mx.array, scale: float, mask: Any, starts: Any) -> mx.array:
    """As cuda_decode.attend."""
    _, keys, _ = given
    if starts is not None:
        counts = mx.arange(keys.shape[2])[None, None, None] >= starts[:, None, None, None]
        mask = counts if mask is None else mask & counts
    return mx.fast.scaled_dot_product_attention(*given, scale=scale, mask=mask)

"""Which tokens rows may draw: asked of their constraints on the host, applied on the device.

A bit per token, in words of 32. It does not know grammars.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.core.constraint import Constraint

_BITS = 32


def apply_constraints(logits: mx.array, constraints: Sequence[Constraint]) -> mx.array:
    """`logits` [R, V], with -inf for the tokens that row r's constraint forbids."""
    vocab_size = logits.shape[-1]
    words = np.zeros((len(constraints), -(-vocab_size // _BITS)), np.int32)
    for constraint, row in zip(constraints, words, strict=True):
        constraint.fill(row)
    bits = mx.array(words.view(np.uint32))[:, :, None] >> mx.arange(_BITS, dtype=mx.uint32)
    allowed = (bits & 1).reshape(len(constraints), -1)[:, :vocab_size].astype(mx.bool_)
    return mx.where(allowed, logits, -mx.inf)

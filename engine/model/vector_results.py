"""A row's vector or score as the wire carries it."""

from __future__ import annotations

import base64
from typing import Any

import mlx.core as mx
import numpy as np

from engine import wire
from engine.core.step import UndefinedNumbers
from engine.model.sentence_files import Pooling

_LEAST_LENGTH = 1e-12


def normalized(states: mx.array) -> mx.array:
    """Each brought to length 1."""
    length = mx.linalg.norm(states, axis=-1, keepdims=True)
    return states / mx.maximum(length, _LEAST_LENGTH)


def as_event(
    result: Any, *, place: int, dimensions: int | None, pooling: Pooling | None
) -> wire.Event:
    """`pooling` None: it is a score. Raises UndefinedNumbers."""
    if not np.isfinite(result).all():
        raise UndefinedNumbers
    if pooling is None:
        return wire.Scored(place=place, score=float(result))
    vector = result[:dimensions]
    if dimensions is not None and pooling.is_normalized:
        vector = vector / max(float(np.linalg.norm(vector)), _LEAST_LENGTH)
    return wire.Embedded(place=place, vector=base64.b64encode(vector.astype("<f4")).decode())

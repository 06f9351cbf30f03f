"""Rows whose keys and values are kept in 8 or 4 bits. Only plain attention layers can be; windowed
and recurrent ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from engine.model import caches as row_caches
from engine.model.caches import Caches

_PROMPT = (11, 7, 5, 13, 17, 19, 23, 29, 31, 37, 41)
_GROUP_SIZES = (64, 32)
# Mean difference of the logits in units of their spread: rounding to 4 bits stays far below.
_TOLERANCE = 0.5
_NOT_QUANTISABLE_ERRORS = (ValueError, TypeError, AttributeError, LookupError, RuntimeError)


class NotQuantisable(Exception):
    """The KV cache of this model cannot be kept in fewer bits."""


def quantised_caches(model: Any, bits: int) -> Callable[[], Caches]:
    """Makes rows of this model with quantised caches. Raises NotQuantisable, after a trial."""
    plain = row_caches.new_caches(model)
    expected = _logits(model, plain)
    group_size = _group_size([layer for layer in plain if type(layer) is KVCache])

    def make() -> Caches:
        return [
            QuantizedKVCache(group_size=group_size, bits=bits) if type(layer) is KVCache else layer
            for layer in row_caches.new_caches(model)
        ]

    try:
        found = _logits(model, make())
    except _NOT_QUANTISABLE_ERRORS as error:
        raise NotQuantisable(f"the KV cache cannot be quantised: {error}") from error
    if not np.abs(expected - found).mean() < _TOLERANCE * expected.std():
        raise NotQuantisable(f"with a KV cache of {bits} bits the model answers differently")
    return make


def _group_size(layers: list[KVCache]) -> int:
    sizes = [array.shape[-1] for layer in layers for array in (layer.keys, layer.values)]
    for group_size in _GROUP_SIZES:
        if sizes and all(size % group_size == 0 for size in sizes):
            return group_size
    raise NotQuantisable("the KV cache cannot be quantised: no layer of this model allows it")


def _logits(model: Any, caches: Caches) -> np.ndarray[Any, Any]:
    """Of a short prompt read in two pieces, so that what was kept is read again."""
    half = len(_PROMPT) // 2
    model(mx.array([_PROMPT[:half]], mx.uint32), cache=caches)
    logits = model(mx.array([_PROMPT[half:]], mx.uint32), cache=caches)
    return np.array(logits.astype(mx.float32))

"""What a loaded model's caches keep, read from caches that hold something. Units of engine/sizing.

Before a model is loaded its config tells that, where the family is known.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, RotatingKVCache

from engine.model.caches import Caches, evaluate, new_caches
from engine.sizing.layers import FullLayers, Layers, StateLayers, WindowLayers


def kept_layers(model: Any, *, compute_bytes: int) -> tuple[Layers, ...] | None:
    """Groups of equal layers; an element has `compute_bytes`. None: a cache is of a class that only
    its family knows."""
    row = new_caches(model)
    model(mx.array([[0, 0]], mx.uint32), cache=row)
    evaluate(row)
    kept = [_kept(layer, compute_bytes) for layer in _parts(row)]
    counts = Counter(one for one in kept if one is not None)
    if sum(counts.values()) < len(kept):
        return None
    return tuple(dataclasses.replace(one, count=count) for one, count in counts.items())


def _parts(caches: Caches) -> Iterator[Any]:
    """Those that hold something."""
    for layer in caches:
        if isinstance(layer, CacheList):
            yield from _parts(layer.caches)
        elif layer.nbytes > 0:
            yield layer


def _kept(layer: Any, compute_bytes: int) -> Layers | None:
    if type(layer) is ArraysCache:
        return StateLayers(count=1, row_elements=layer.nbytes // compute_bytes)
    if type(layer) not in (KVCache, RotatingKVCache, ChunkedKVCache):
        return None
    arrays = [one.nbytes // (one.shape[2] * compute_bytes) for one in (layer.keys, layer.values)]
    if type(layer) is KVCache:
        return FullLayers(count=1, token_elements=sum(arrays), larger_elements=max(arrays))
    window = layer.max_size if type(layer) is RotatingKVCache else layer.chunk_size
    return WindowLayers(count=1, token_elements=sum(arrays), window=window)

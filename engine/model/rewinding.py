"""The last tokens of a row are taken back: keys and values are cut off, states become again what
they were before, for a state cannot forget.

It does not know windows, whose oldest tokens are gone when the newest are taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList

from engine.model.caches import Caches
from engine.model.token_arrays import PLAIN


def may_cut(caches: Caches) -> bool:
    """Whether all layers keep an entry for each token."""
    return all(type(layer) in PLAIN for layer in _layers(caches))


def may_rewind(caches: Caches) -> bool:
    return all(type(layer) in (*PLAIN, ArraysCache) for layer in _layers(caches))


def cut(caches: Caches, num_tokens: int) -> None:
    """The last tokens off keys and values."""
    for layer in _layers(caches):
        if type(layer) in PLAIN:
            layer.trim(num_tokens)


class States:
    """Of the recurrent layers of a row, as they are now. Nothing is copied: arrays never change."""

    def __init__(self, caches: Caches) -> None:
        layers = (one for one in _layers(caches) if type(one) is ArraysCache)
        self._held: list[tuple[Any, list[mx.array | None]]] = [
            (layer, list(layer.cache)) for layer in layers
        ]

    def __bool__(self) -> bool:
        return bool(self._held)

    def restore(self) -> None:
        for layer, arrays in self._held:
            layer.cache = list(arrays)


def _layers(caches: Caches) -> Iterator[Any]:
    for layer in caches:
        if isinstance(layer, CacheList):
            yield from _layers(list(layer.caches))
        else:
            yield layer

"""Keys and values of a layer as a flat list of arrays, all [B, H, L, ...]: two where they are kept
as computed, six where they are quantised (numbers, scales, biases of each).

    plain    KVCache        QuantizedKVCache      rows of one length
    padded   BatchKVCache   QuantisedRows         any lengths, their ends level
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache, QuantizedKVCache

from engine.model.quantised_rows import QuantisedRows

PLAIN = (KVCache, QuantizedKVCache)
PADDED = (BatchKVCache, QuantisedRows)


def tokens_of(layer: Any) -> tuple[mx.array, ...]:
    """Keys, then values; nothing of a layer that never held any."""
    if layer.keys is None:
        return ()
    return (*layer.keys, *layer.values) if _is_quantised(layer) else (layer.keys, layer.values)


def replace_tokens(layer: Any, arrays: Sequence[mx.array]) -> None:
    layer.state = (*_pair(layer, arrays), *layer.state[2:])


def length_of(layer: Any) -> int:
    """Of L, how many are not room."""
    return int(layer.offset if isinstance(layer, QuantizedKVCache) else layer.size())


def plain(like: Any, arrays: Sequence[mx.array], num_tokens: int) -> Any:
    """Rows of one length, kept as those of `like` are."""
    state = (*_pair(like, arrays), num_tokens)
    if _is_quantised(like):
        return QuantizedKVCache.from_state((*state, like.group_size, like.bits))
    return KVCache.from_state(state)


def padded(like: Any, arrays: Sequence[mx.array], lengths: list[int]) -> Any:
    """Rows of these lengths, kept as those of `like` are."""
    offset, longest = mx.array(lengths), max(lengths)
    state = (*_pair(like, arrays), offset, longest - offset, longest)
    if _is_quantised(like):
        return QuantisedRows.from_state((*state, like.group_size, like.bits))
    return BatchKVCache.from_state(state)


def _is_quantised(layer: Any) -> bool:
    return isinstance(layer, (QuantizedKVCache, QuantisedRows))


def _pair(like: Any, arrays: Sequence[mx.array]) -> tuple[Any, Any]:
    """Keys and values as the layer has them."""
    if _is_quantised(like):
        return tuple(arrays[:3]), tuple(arrays[3:])
    keys, values = arrays
    return keys, values

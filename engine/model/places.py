"""A row takes the place of one that has left: its own caches are copied, nobody else's.

    before   [ a a a | . b b | c c c ]         padded on the left, all rows end in one column
    after    [ a a a | . . d | c c c ]         what stood there is gone, zeros before the row

By mlx-lm's public calls only. Which row goes where is batch.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from engine.model.caches import Caches
from engine.model.token_arrays import PADDED, length_of, tokens_of


def may_lay(caches: Caches) -> bool:
    """Rings and chunks of their own cannot be told from outside where a token stands."""
    return all(_may_lay(layer) for layer in caches)


def _may_lay(layer: Any) -> bool:
    if isinstance(layer, ArraysCache):
        arrays, left_padding, lengths = layer.state
        is_even = left_padding is None and lengths is None
        return is_even and all(array is not None for array in arrays)
    return isinstance(layer, PADDED)


def laying(caches: Caches, rows: dict[int, Caches], lengths: list[int]) -> Iterator[None]:
    """A layer at a time, each row's caches into its place; lazily, for nothing is alive twice.
    `lengths`: of all places then, none longer than the columns in use."""
    offset = mx.array(lengths)
    for index, layer in enumerate(caches):
        for place, row in rows.items():
            given, row[index] = row[index], None
            if isinstance(layer, ArraysCache):
                _lay_state(layer, place, given)
            else:
                _lay_tokens(layer, place, given)
        if isinstance(layer, PADDED):
            keys, values, _, _, *rest = layer.state
            layer.state = (keys, values, offset, length_of(layer) - offset, *rest)
        yield


def _lay_state(layer: ArraysCache, place: int, row: ArraysCache) -> None:
    for array, given in zip(layer.state[0], row.state[0], strict=True):
        array[place : place + 1] = 0 if given is None else given


def _lay_tokens(layer: Any, place: int, row: Any) -> None:
    """What is padding is zeros: a number that is none would be none for this row, too, masked or
    not."""
    end, num_tokens = length_of(layer), length_of(row)
    for array in tokens_of(layer):
        array[place : place + 1, :, : end - num_tokens] = 0
    if num_tokens:
        for array, given in zip(tokens_of(layer), tokens_of(row), strict=True):
            array[place : place + 1, :, end - num_tokens : end] = given[..., :num_tokens, :]

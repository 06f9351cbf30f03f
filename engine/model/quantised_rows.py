"""Rows of quantised keys and values in one batch, padded on the left. mlx-lm has no such class.

What BatchKVCache is to KVCache, this is to QuantizedKVCache: keys and values are three arrays each
(numbers, scales, biases), and attention takes them as they are.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.base import create_causal_mask

Quantised = tuple[mx.array, mx.array, mx.array]


class QuantisedRows:
    """Room for tokens is made before each step (caches.make_room). `offset` [B] counts each row's
    tokens, `left_padding` [B] the columns before them, `end` the columns in use."""

    keys: Quantised
    values: Quantised
    offset: mx.array
    left_padding: mx.array
    end: int
    group_size: int
    bits: int

    @classmethod
    def from_state(cls, state: tuple[Any, ...]) -> QuantisedRows:
        made = cls()
        made.state = state
        return made

    @property
    def state(self) -> tuple[Any, ...]:
        arrays = (self.keys, self.values, self.offset, self.left_padding)
        return (*arrays, self.end, self.group_size, self.bits)

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        self.keys, self.values, self.offset, self.left_padding, *rest = state
        self.end, self.group_size, self.bits = rest

    @property
    def nbytes(self) -> int:
        parts: Any = tree_flatten((self.keys, self.values))
        return sum(array.nbytes for _, array in parts)

    def size(self) -> int:
        return self.end

    def empty(self) -> bool:
        return False

    def make_mask(self, num_tokens: int, return_array: bool = False, **options: Any) -> mx.array:
        mask: mx.array = create_causal_mask(
            num_tokens, offset=self.end, left_padding=self.left_padding, **options
        )
        return mask

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Quantised, Quantised]:
        """`keys` and `values` [B, H, n, D] come behind what is there."""
        first, self.end = self.end, self.end + keys.shape[2]
        self.offset = self.offset + keys.shape[2]
        for held, given in ((self.keys, keys), (self.values, values)):
            quantised = mx.quantize(given, group_size=self.group_size, bits=self.bits)
            for array, new in zip(held, quantised, strict=True):
                array[..., first : self.end, :] = new
        used: Any = tree_map(lambda array: array[..., : self.end, :], (self.keys, self.values))
        return used  # type: ignore[no-any-return]

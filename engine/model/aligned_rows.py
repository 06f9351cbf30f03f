"""Padded rows whose keys and values come in whole columns of 64, for matrix products on CUDA.

mlx-lm's BatchKVCache hands out exactly as many tokens as there are. With an odd number of them
cuBLAS falls back to kernels three times as slow; the last columns are masked instead.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache

COLUMN_TOKENS = 64
SPARE_TOKENS = 256  # room for so many steps, before the buffers move
_WASTE = 256  # more room than this is given back


class AlignedRows(BatchKVCache):  # type: ignore[misc]
    """keys, values [B, Hkv, capacity, D]; capacity is a multiple of 64."""

    state: Any

    @classmethod
    def of(cls, rows: BatchKVCache) -> AlignedRows:
        aligned: AlignedRows = cls.from_state(rows.state)
        aligned._align()
        return aligned

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self.make_room(keys.shape[2])
        super().update_and_fetch(keys, values)
        all_keys, all_values, *_, end = self.state
        stop = _round_up(end)
        return all_keys[..., :stop, :], all_values[..., :stop, :]

    def make_mask(self, N: int, return_array: bool = False, **named: Any) -> mx.array:
        """[B, 1, N, columns]: False for padding, for later tokens and for what rounding added."""
        mask = super().make_mask(N, return_array, **named)
        missing = _round_up(mask.shape[-1]) - mask.shape[-1]
        return mx.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)]) if missing else mask

    def extend(self, other: BatchKVCache) -> None:
        super().extend(other)
        self._align()

    def filter(self, batch_indices: Any) -> None:
        super().filter(batch_indices)
        self._align()

    def make_room(self, num_tokens: int) -> None:
        all_keys, *_, end = self.state
        if all_keys is not None and end + num_tokens > all_keys.shape[2]:
            self._align()

    def _align(self) -> None:
        all_keys, all_values, offset, left_padding, end = self.state
        if all_keys is None:
            return
        capacity = _round_up(end + SPARE_TOKENS)
        if all_keys.shape[2] % COLUMN_TOKENS == 0 and end < all_keys.shape[2] <= capacity + _WASTE:
            return
        self.state = (
            _resized(all_keys[..., :end, :], capacity),
            _resized(all_values[..., :end, :], capacity),
            offset,
            left_padding,
            end,
        )


def _resized(array: mx.array, capacity: int) -> mx.array:
    return mx.pad(array, [(0, 0), (0, 0), (0, capacity - array.shape[2]), (0, 0)])


def _round_up(num_tokens: int) -> int:
    return -(-num_tokens // COLUMN_TOKENS) * COLUMN_TOKENS

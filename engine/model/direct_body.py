"""Slices of prompts of models that are built as Llama's or Qwen3's, without their modules, on CUDA.

Some hundred tokens are computed there sooner than a host submits the operations of all layers, so
these are what a short prompt and the next turn of a conversation cost, as of a decode step
(cuda_layer.py).
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.base import create_attention_mask

from engine.model.caches import Caches
from engine.model.direct_layer import DirectLayer, Function


class DirectBody:
    """Caches are plain ones, of rows that start level. Of the last layer no more is computed than
    is wanted."""

    bytes_for = None  # what slices take is all MLX's

    def __init__(
        self, layers: list[DirectLayer], *, embed: Any, norm: Function, head: Function
    ) -> None:
        self._layers, self._embed, self._norm, self._head = layers, embed, norm, head

    def read(self, token_ids: mx.array, caches: Caches) -> None:
        """Token ids [B, n]. Lazy."""
        x, positions = self._before_last(token_ids, caches)
        self._layers[-1].keep(x, caches[-1], positions)

    def logits(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Of the last of token ids [B, n]: [B, V], lazily."""
        x, positions = self._before_last(token_ids, caches)
        x = self._layers[-1](x, caches[-1], positions, None, last_only=True)
        return self._head(self._norm(x))[:, -1]

    def _before_last(self, token_ids: mx.array, caches: Caches) -> tuple[mx.array, mx.array]:
        """What the last layer takes, and where each row begins."""
        x = self._embed(token_ids)
        mask = create_attention_mask(x, caches[0])
        positions = mx.array([caches[0].offset] * len(token_ids), mx.int32)
        for layer, cache in zip(self._layers[:-1], caches, strict=False):
            x = layer(x, cache, positions, mask)
        return x, positions

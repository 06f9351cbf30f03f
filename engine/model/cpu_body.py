"""Slices of prompts on x86 processors, of models that are built as Llama's or Qwen3's: past their
modules and past MLX (cpu_layer.py)."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.rope_utils import Llama3RoPE

from engine.model.caches import Caches
from engine.model.cpu_layer import CpuLayer, Floats, Norm, Product, Rotation
from engine.model.structure import known_layers, parts_of

_PARTS = (nn.Linear, nn.Embedding, nn.RMSNorm, nn.RoPE, Llama3RoPE)


class CpuBody:
    """Token ids are [B, n], of rows that start level; caches are plain ones."""

    def __init__(self, model: Any, layers: list[Any]) -> None:
        body, head = parts_of(model)
        self._embedding = np.asarray(body.embed_tokens.weight)
        self._layers = [CpuLayer(one) for one in layers]
        self._rotation = Rotation(layers[0].self_attn.rope)
        self._norm = Norm(body.norm)
        self._head = Product(head if isinstance(head, nn.Linear) else body.embed_tokens)

    def read(self, token_ids: mx.array, caches: Caches) -> None:
        self._compute(token_ids, caches, draws=False)

    def logits(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Of the last position [B, V]."""
        states = self._compute(token_ids, caches, draws=True)
        return mx.array(self._head(self._norm(states[:, -1])))

    # What is no number stays none, and ends its own row
    @np.errstate(over="ignore", invalid="ignore")
    def _compute(self, token_ids: mx.array, caches: Caches, *, draws: bool) -> Floats:
        start, num_tokens = caches[0].offset, token_ids.shape[1]
        turns = self._rotation.turns(start, start + num_tokens)
        x: Floats = self._embedding[np.asarray(token_ids)]
        for layer, cache in zip(self._layers[:-1], caches, strict=False):
            x = layer(x, cache, turns, wants_all=True)
        if draws:
            return self._layers[-1](x, caches[-1], turns, wants_all=False)
        self._layers[-1].keep(x, caches[-1], turns)
        return x


def make_cpu_body(model: Any) -> CpuBody | None:
    """None for models that are built otherwise, and for other numbers than float32."""
    layers = known_layers(model)
    parameters: Any = tree_flatten(model.parameters())
    leaves = [part for part in model.modules() if not part.children()]
    if layers is None or any(one.dtype != mx.float32 for _, one in parameters):
        return None
    if any(type(part) not in _PARTS for part in leaves):
        return None
    return CpuBody(model, layers)

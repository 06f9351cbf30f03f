"""Models that are built as Llama's or Qwen3's on x86 processors: slices of prompts, and decode
steps of few rows, past their modules and past MLX (cpu_layer.py)."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import activations, base
from mlx_lm.models.cache import BatchKVCache, KVCache
from mlx_lm.models.rope_utils import Llama3RoPE

from engine.model import caches as row_caches
from engine.model import cpu_activation, cpu_attention
from engine.model.caches import Caches
from engine.model.cpu_layer import FEW_ROWS, CpuLayer, Norm, Product, Rotation
from engine.model.cpu_slices import Floats
from engine.model.direct_layer import bound
from engine.model.structure import known_layers, parts_of

_ATTENTIONS = (base.scaled_dot_product_attention, cpu_attention.attention)
_SWIGLUS = (activations.swiglu, cpu_activation.swiglu)
_PARTS = (nn.Linear, nn.Embedding, nn.RMSNorm, nn.RoPE, Llama3RoPE)


class CpuBody:
    """Caches are plain ones, of rows that start level, or in a step padded ones."""

    def __init__(self, model: Any, layers: list[Any]) -> None:
        body, head = parts_of(model)
        self._embedding = np.asarray(body.embed_tokens.weight)
        self._layers = [CpuLayer(one) for one in layers]
        self._rotation = Rotation(layers[0].self_attn.rope)
        self._norm = Norm(body.norm)
        self._head = Product(head if isinstance(head, nn.Linear) else body.embed_tokens)

    def read(self, token_ids: mx.array, caches: Caches) -> None:
        """Token ids [B, n]"""
        self._compute(token_ids, caches, draws=False)

    def logits(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Of the last of token ids [B, n]: [B, V]."""
        states = self._compute(token_ids, caches, draws=True)
        return mx.array(self._head(self._norm(states[:, -1])))

    def all_logits(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Of each of token ids [B, n]: [B, n, V]."""
        states = self._compute(token_ids, caches, draws=True, wants_all=True)
        return mx.array(self._head(self._norm(states)))

    def bytes_for(self, num_tokens: int) -> int:
        """The most that a slice of so many tokens takes beside MLX's arrays."""
        return max(layer.bytes_for(num_tokens) for layer in self._layers)

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Token ids [B, 1] to logits [B, 1, V]."""
        first = caches[0]
        positions = np.broadcast_to(np.asarray(first.offset), len(token_ids))
        turns, hidden = self._rotation.of_rows(positions), _padding(first)
        x: Floats = self._embedding[np.asarray(token_ids)]
        more: list[tuple[Floats, Floats]] = []
        for layer, cache in zip(self._layers, caches, strict=True):
            x, keys, values = layer.step(x, _held(cache), turns, hidden=hidden)
            more.append((keys, values))
        for cache, (keys, values) in zip(caches, more, strict=True):
            cache.update_and_fetch(mx.array(keys), mx.array(values))
        row_caches.start_evaluating(caches)
        return mx.array(self._head(self._norm(x)))

    # What is no number stays none, and ends its own row
    @np.errstate(over="ignore", invalid="ignore")
    def _compute(
        self, token_ids: mx.array, caches: Caches, *, draws: bool, wants_all: bool = False
    ) -> Floats:
        start, num_tokens = caches[0].offset, token_ids.shape[1]
        turns = self._rotation.of_slice(start, start + num_tokens)
        x: Floats = self._embedding[np.asarray(token_ids)]
        for layer, cache in zip(self._layers[:-1], caches, strict=False):
            x = layer(x, cache, turns)
        if draws:
            return self._layers[-1](x, caches[-1], turns, wants_all=wants_all)
        self._layers[-1].keep(x, caches[-1], turns)
        return x


class FewRowsStep:
    """In the place of `others`, for decode steps of few rows: computed when this returns."""

    def __init__(self, body: CpuBody, others: Any) -> None:
        self._body, self._others = body, others

    def __call__(self, token_ids: mx.array, *, cache: Caches) -> mx.array:
        """Token ids [B, 1] to logits [B, 1, V]."""
        is_known = type(cache[0]) in (KVCache, BatchKVCache) and not cache[0].empty()
        if is_known and self.computes_at_once(len(token_ids)):
            return self._body.step(token_ids, cache)
        return self._others(token_ids, cache=cache)  # type: ignore[no-any-return]

    def computes_at_once(self, num_rows: int) -> bool:
        return num_rows <= FEW_ROWS


def _held(layer: Any) -> tuple[Floats, Floats]:
    """[B, Hkv, L, D] each, to be let go before the layer takes more: MLX copies a buffer that
    somebody looks at."""
    keys, values, num_tokens = row_caches.held_tokens(layer)
    return np.asarray(keys)[:, :, :num_tokens], np.asarray(values)[:, :, :num_tokens]


def _padding(layer: Any) -> npt.NDArray[np.bool_] | None:
    """[B, 1, 1, L]: what is in front of rows that are shorter."""
    if type(layer) is KVCache:
        return None
    padding, num_tokens = layer.state[-2:]
    is_padding: npt.NDArray[np.bool_] = np.arange(num_tokens) < np.asarray(padding)[:, None]
    return is_padding[:, None, None] if is_padding.any() else None


def make_cpu_body(model: Any) -> CpuBody | None:
    """None for models that are built otherwise, and for other numbers than float32."""
    layers = known_layers(model)
    parameters: Any = tree_flatten(model.parameters())
    leaves = [part for part in model.modules() if not part.children()]
    if layers is None or any(one.dtype != mx.float32 for _, one in parameters):
        return None
    if any(type(part) not in _PARTS for part in leaves) or not all(map(_is_plain, layers)):
        return None
    return CpuBody(model, layers)


def _is_plain(layer: Any) -> bool:
    """Whether its family attends and opens its gates as others do."""
    attention = bound(layer.self_attn, "scaled_dot_product_attention")
    return attention in _ATTENTIONS and bound(layer.mlp, "swiglu") in _SWIGLUS

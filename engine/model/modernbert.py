"""ModernBERT: an encoder with rotary positions; most of its layers see a window of each side.

Warner et al. 2024, arXiv:2412.13663. Modules are named as in the models' own files.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.model.encoder_parts import activation, mean_state, padding_mask

_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclasses.dataclass(frozen=True, slots=True)
class Masks:
    """What a token may look at, in layers of either kind; None: everything."""

    everywhere: mx.array | None
    nearby: mx.array | None


class ModernBert(nn.Module):
    """An Encoder (encoder.py)."""

    def __init__(self, config: Mapping[str, Any], *, has_head: bool):
        super().__init__()
        kinds = _layer_kinds(config)
        self.embeddings = _Embeddings(config)
        self.layers = [_Layer(config, kind, is_first=not at) for at, kind in enumerate(kinds)]
        self.final_norm = _norm(config)
        self._reach = config.get("local_attention", 128) // 2
        if has_head:
            self.head = _Head(config)
            self.classifier = nn.Linear(config["hidden_size"], 1)
        self._is_mean = config.get("classifier_pooling", "cls") == "mean"

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    def embed(self, ids: mx.array, types: mx.array) -> mx.array:
        states: mx.array = self.embeddings.norm(self.embeddings.tok_embeddings(ids))
        return states

    def masks(self, lengths: list[int]) -> Masks:
        padding, longest = padding_mask(lengths), max(lengths)
        if longest <= self._reach + 1:
            return Masks(padding, padding)
        places = mx.arange(longest)
        nearby = mx.abs(places[:, None] - places[None, :]) <= self._reach
        if padding is None:
            return Masks(None, nearby)
        # A padded token may have nobody near: it looks everywhere, and nobody looks at it.
        is_padded = ~padding.swapaxes(2, 3)
        return Masks(padding, nearby & padding | is_padded)

    def run_layer(self, number: int, states: mx.array, masks: Masks) -> mx.array:
        states = self.layers[number](states, masks)
        return states

    def finish(self, states: mx.array) -> mx.array:
        normed: mx.array = self.final_norm(states)
        return normed

    def score(self, states: mx.array, lengths: Sequence[int]) -> mx.array:
        pooled = mean_state(states, lengths) if self._is_mean else states[:, 0]
        logits: mx.array = self.classifier(self.head(pooled))
        return logits


def named_parts(name: str) -> str:
    """A name in a file as it is here."""
    return name.removeprefix("model.")


def _layer_kinds(config: Mapping[str, Any]) -> list[str]:
    """Newer files name each layer's kind; older ones say how often a full one comes."""
    if isinstance(kinds := config.get("layer_types"), list):
        return [str(kind) for kind in kinds]
    every = config.get("global_attn_every_n_layers", 3)
    return [_SLIDING if at % every else _FULL for at in range(config["num_hidden_layers"])]


def _rope_base(config: Mapping[str, Any], kind: str) -> float:
    if isinstance(parameters := config.get("rope_parameters"), dict):
        return float(parameters[kind]["rope_theta"])
    everywhere = config.get("global_rope_theta", 160_000.0)
    nearby = config.get("local_rope_theta", 10_000.0)
    return float(everywhere if kind == _FULL or nearby is None else nearby)


def _norm(config: Mapping[str, Any]) -> nn.LayerNorm:
    eps, has_bias = config.get("norm_eps", 1e-5), config.get("norm_bias", False)
    return nn.LayerNorm(config["hidden_size"], eps=eps, bias=has_bias)


class _Embeddings(nn.Module):
    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.norm = _norm(config)


class _Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any], kind: str, *, is_first: bool):
        super().__init__()
        # The first layer's input has just been normalised.
        self.attn_norm = nn.Identity() if is_first else _norm(config)
        self.attn = _Attention(config, kind)
        self.mlp_norm = _norm(config)
        self.mlp = _Mlp(config)
        self._is_full = kind == _FULL

    def __call__(self, states: mx.array, masks: Masks) -> mx.array:
        mask = masks.everywhere if self._is_full else masks.nearby
        states = states + self.attn(self.attn_norm(states), mask)
        summed: mx.array = states + self.mlp(self.mlp_norm(states))
        return summed


class _Attention(nn.Module):
    def __init__(self, config: Mapping[str, Any], kind: str):
        super().__init__()
        size, has_bias = config["hidden_size"], config.get("attention_bias", False)
        self._num_heads = config["num_attention_heads"]
        self.Wqkv = nn.Linear(size, 3 * size, bias=has_bias)
        self.Wo = nn.Linear(size, size, bias=has_bias)
        self._rope = nn.RoPE(size // self._num_heads, base=_rope_base(config, kind))

    def __call__(self, states: mx.array, mask: mx.array | None) -> mx.array:
        rows, tokens, _ = states.shape
        split = self.Wqkv(states).reshape(rows, tokens, 3, self._num_heads, -1)
        queries, keys, values = (split[:, :, at].swapaxes(1, 2) for at in range(3))
        mixed = mx.fast.scaled_dot_product_attention(
            self._rope(queries),
            self._rope(keys),
            values,
            scale=1 / math.sqrt(values.shape[-1]),
            mask=mask,
        )
        joined: mx.array = self.Wo(mixed.swapaxes(1, 2).reshape(states.shape))
        return joined


class _Mlp(nn.Module):
    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        size, inner = config["hidden_size"], config["intermediate_size"]
        has_bias = config.get("mlp_bias", False)
        self.Wi = nn.Linear(size, 2 * inner, bias=has_bias)
        self.Wo = nn.Linear(inner, size, bias=has_bias)
        self._activate = activation(config.get("hidden_activation", "gelu"))

    def __call__(self, states: mx.array) -> mx.array:
        given, gate = mx.split(self.Wi(states), 2, axis=-1)
        made: mx.array = self.Wo(self._activate(given) * gate)
        return made


class _Head(nn.Module):
    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        size = config["hidden_size"]
        self.dense = nn.Linear(size, size, bias=config.get("classifier_bias", False))
        self.norm = _norm(config)
        self._activate = activation(config.get("classifier_activation", "gelu"))

    def __call__(self, state: mx.array) -> mx.array:
        normed: mx.array = self.norm(self._activate(self.dense(state)))
        return normed

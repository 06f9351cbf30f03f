"""BERT and RoBERTa: encoders with learned positions, normalised after every sum.

Devlin et al. 2018, arXiv:1810.04805; Liu et al. 2019, arXiv:1907.11692. Modules are named as in the
models' own files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.core.encoder_config import ROBERTA_TYPES, first_position
from engine.model.encoder_parts import activation, padding_mask


class Bert(nn.Module):
    """An Encoder (encoder.py)."""

    def __init__(self, config: Mapping[str, Any], *, has_head: bool):
        super().__init__()
        size, eps = config["hidden_size"], config.get("layer_norm_eps", 1e-12)
        self.embeddings = _Embeddings(config, size=size, eps=eps)
        self.encoder = _Layers(config, size=size, eps=eps)
        if has_head:
            is_roberta = config["model_type"] in ROBERTA_TYPES
            self.head = _RobertaHead(size) if is_roberta else _BertHead(size)

    @property
    def num_layers(self) -> int:
        return len(self.encoder.layer)

    def embed(self, ids: mx.array, types: mx.array) -> mx.array:
        return self.embeddings(ids, types)

    def masks(self, lengths: list[int]) -> mx.array | None:
        return padding_mask(lengths)

    def run_layer(self, number: int, states: mx.array, masks: mx.array | None) -> mx.array:
        states = self.encoder.layer[number](states, masks)
        return states

    def finish(self, states: mx.array) -> mx.array:
        return states

    def score(self, states: mx.array, lengths: list[int]) -> mx.array:
        logits: mx.array = self.head(states[:, 0])
        return logits


def named_parts(name: str) -> str:
    """A name in a file as it is here."""
    name = name.removeprefix("bert.").removeprefix("roberta.")
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    name = name.replace("LayerNorm.beta", "LayerNorm.bias")
    return f"head.{name}" if name.startswith(("pooler.", "classifier.")) else name


class _Embeddings(nn.Module):
    def __init__(self, config: Mapping[str, Any], *, size: int, eps: float):
        super().__init__()
        self.word_embeddings = nn.Embedding(config["vocab_size"], size)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], size)
        self._num_types = config.get("type_vocab_size", 2)
        self.token_type_embeddings = nn.Embedding(self._num_types, size)
        self.LayerNorm = nn.LayerNorm(size, eps=eps)
        self._first = first_position(config)

    def __call__(self, ids: mx.array, types: mx.array) -> mx.array:
        positions = mx.arange(self._first, self._first + ids.shape[1])
        states = self.word_embeddings(ids) + self.position_embeddings(positions)
        states = states + self.token_type_embeddings(mx.minimum(types, self._num_types - 1))
        normed: mx.array = self.LayerNorm(states)
        return normed


class _Layers(nn.Module):
    def __init__(self, config: Mapping[str, Any], *, size: int, eps: float):
        super().__init__()
        count = config["num_hidden_layers"]
        self.layer = [_Layer(config, size=size, eps=eps) for _ in range(count)]


class _Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any], *, size: int, eps: float):
        super().__init__()
        inner = config["intermediate_size"]
        self.attention = _Attention(config["num_attention_heads"], size=size, eps=eps)
        self.intermediate = _Dense(size, inner)
        self.output = _Sum(inner, size, eps=eps)
        self._activate = activation(config.get("hidden_act", "gelu"))

    def __call__(self, states: mx.array, mask: mx.array | None) -> mx.array:
        states = self.attention(states, mask)
        summed: mx.array = self.output(self._activate(self.intermediate.dense(states)), states)
        return summed


class _Attention(nn.Module):
    def __init__(self, num_heads: int, *, size: int, eps: float):
        super().__init__()
        self.self = _Projections(size)
        self.output = _Sum(size, size, eps=eps)
        self._num_heads = num_heads

    def __call__(self, states: mx.array, mask: mx.array | None) -> mx.array:
        projections = (self.self.query, self.self.key, self.self.value)
        heads = (self._split(one(states)) for one in projections)
        queries, keys, values = heads
        scale = 1 / math.sqrt(queries.shape[-1])
        mixed = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)
        summed: mx.array = self.output(mixed.swapaxes(1, 2).reshape(states.shape), states)
        return summed

    def _split(self, states: mx.array) -> mx.array:
        rows, tokens, _ = states.shape
        return states.reshape(rows, tokens, self._num_heads, -1).swapaxes(1, 2)


class _Projections(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))


class _Dense(nn.Module):
    def __init__(self, given: int, size: int):
        super().__init__()
        self.dense = nn.Linear(given, size)


class _Sum(nn.Module):
    def __init__(self, given: int, size: int, *, eps: float):
        super().__init__()
        self.dense = nn.Linear(given, size)
        self.LayerNorm = nn.LayerNorm(size, eps=eps)

    def __call__(self, given: mx.array, states: mx.array) -> mx.array:
        summed: mx.array = self.LayerNorm(self.dense(given) + states)
        return summed


class _BertHead(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.pooler = _Dense(size, size)
        self.classifier = nn.Linear(size, 1)

    def __call__(self, state: mx.array) -> mx.array:
        logits: mx.array = self.classifier(mx.tanh(self.pooler.dense(state)))
        return logits


class _RobertaHead(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.classifier = _RobertaClassifier(size)

    def __call__(self, state: mx.array) -> mx.array:
        logits: mx.array = self.classifier(state)
        return logits


class _RobertaClassifier(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.dense = nn.Linear(size, size)
        self.out_proj = nn.Linear(size, 1)

    def __call__(self, state: mx.array) -> mx.array:
        logits: mx.array = self.out_proj(mx.tanh(self.dense(state)))
        return logits

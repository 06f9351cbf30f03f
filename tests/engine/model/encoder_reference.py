"""Encoders in numpy and float64, one text at a time, written after the papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf = np.vectorize(math.erf)


class Reference:
    def __init__(self, weights: Mapping[str, Array], config: Mapping[str, Any]) -> None:
        prefixes = ("bert.", "roberta.", "model.")
        self._weights = {}
        for name, array in weights.items():
            short = next((name[len(one) :] for one in prefixes if name.startswith(one)), name)
            self._weights[short] = array.astype(np.float64)
        self._config = config

    def states(self, ids: tuple[int, ...], *, second_at: int | None = None) -> Array:
        """[T, D]; `second_at`: where the second text begins."""
        if self._config["model_type"] == "modernbert":
            return self._modern(ids)
        return self._bert(ids, second_at)

    def score(self, ids: tuple[int, ...], *, second_at: int | None = None) -> float:
        states = self.states(ids, second_at=second_at)
        match self._config["model_type"]:
            case "modernbert":
                hidden = _gelu(self._linear("head.dense", states.mean(axis=0)))
                logit = self._linear("classifier", self._norm("head.norm", hidden, 1e-5))
            case "bert":
                logit = self._linear("classifier", np.tanh(self._linear("pooler.dense", states[0])))
            case _:
                hidden = np.tanh(self._linear("classifier.dense", states[0]))
                logit = self._linear("classifier.out_proj", hidden)
        return float(1 / (1 + np.exp(-logit[0])))

    def _bert(self, ids: tuple[int, ...], second_at: int | None) -> Array:
        eps = self._config["layer_norm_eps"]
        first = 0 if self._config["model_type"] == "bert" else self._config["pad_token_id"] + 1
        places = np.arange(len(ids))
        types = (places >= (len(ids) if second_at is None else second_at)).astype(int)
        states = (
            self._weights["embeddings.word_embeddings.weight"][list(ids)]
            + self._weights["embeddings.position_embeddings.weight"][places + first]
            + self._weights["embeddings.token_type_embeddings.weight"][types]
        )
        states = self._norm("embeddings.LayerNorm", states, eps)
        for number in range(self._config["num_hidden_layers"]):
            layer = f"encoder.layer.{number}"
            parts = [
                self._linear(f"{layer}.attention.self.{one}", states)
                for one in ("query", "key", "value")
            ]
            mixed = self._attend(*map(self._heads, parts))
            states = states + self._linear(f"{layer}.attention.output.dense", mixed)
            states = self._norm(f"{layer}.attention.output.LayerNorm", states, eps)
            inner = _gelu(self._linear(f"{layer}.intermediate.dense", states))
            states = states + self._linear(f"{layer}.output.dense", inner)
            states = self._norm(f"{layer}.output.LayerNorm", states, eps)
        return states

    def _modern(self, ids: tuple[int, ...]) -> Array:
        config = self._config
        states = self._weights["embeddings.tok_embeddings.weight"][list(ids)]
        states = self._norm("embeddings.norm", states, 1e-5)
        places = np.arange(len(ids))
        is_near = abs(places[:, None] - places[None, :]) <= config["local_attention"] // 2
        for number in range(config["num_hidden_layers"]):
            layer, is_full = f"layers.{number}", number % config["global_attn_every_n_layers"] == 0
            base = config["global_rope_theta" if is_full else "local_rope_theta"]
            given = self._norm(f"{layer}.attn_norm", states, 1e-5) if number else states
            queries, keys, values = map(
                self._heads, np.split(self._linear(f"{layer}.attn.Wqkv", given), 3, axis=-1)
            )
            mixed = self._attend(
                _rotated(queries, base), _rotated(keys, base), values, None if is_full else is_near
            )
            states = states + self._linear(f"{layer}.attn.Wo", mixed)
            given = self._norm(f"{layer}.mlp_norm", states, 1e-5)
            inner, gate = np.split(self._linear(f"{layer}.mlp.Wi", given), 2, axis=-1)
            states = states + self._linear(f"{layer}.mlp.Wo", _gelu(inner) * gate)
        return self._norm("final_norm", states, 1e-5)

    def _linear(self, name: str, given: Array) -> Array:
        made: Array = given @ self._weights[f"{name}.weight"].T
        return made + self._weights.get(f"{name}.bias", 0.0)

    def _norm(self, name: str, given: Array, eps: float) -> Array:
        centred = given - given.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        scaled: Array = centred / spread * self._weights[f"{name}.weight"]
        return scaled + self._weights.get(f"{name}.bias", 0.0)

    def _heads(self, given: Array) -> Array:
        return given.reshape(len(given), self._config["num_attention_heads"], -1).swapaxes(0, 1)

    def _attend(
        self, queries: Array, keys: Array, values: Array, allowed: Array | None = None
    ) -> Array:
        scores = queries @ keys.swapaxes(1, 2) / math.sqrt(queries.shape[-1])
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed: Array = (weights @ values).swapaxes(0, 1)
        return mixed.reshape(len(mixed), -1)


def _gelu(given: Array) -> Array:
    made: Array = given * 0.5 * (1 + _erf(given / math.sqrt(2)))
    return made


def _rotated(given: Array, base: float) -> Array:
    half = given.shape[-1] // 2
    angles = np.arange(given.shape[1])[:, None] * base ** (-np.arange(half) / half)
    first, second = given[..., :half], given[..., half:]
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)

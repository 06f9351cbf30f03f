"""Gemma 3 with images in NumPy, float64 and all at once, as transformers 5.24 computes it: what
answers are compared with. No cache, no slices, no batch.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file

Array = np.ndarray[Any, Any]


class Seen(NamedTuple):
    """An image of 8 bits at the model's size, and where its tokens begin."""

    start: int
    pixels: Array


class Gemma3Reference:
    def __init__(self, folder: Path) -> None:
        self._config = json.loads((folder / "config.json").read_text())
        self._processor = json.loads((folder / "preprocessor_config.json").read_text())
        self._text, self._vision = self._config["text_config"], self._config["vision_config"]
        files = sorted(folder.glob("model*.safetensors"))
        self._states: dict[bytes, Array] = {}
        self._weights = {
            name: array.astype(np.float64)
            for file in files
            for name, array in load_file(file).items()
        }

    def answer(
        self, prompt: Sequence[int], images: Sequence[Seen], *, max_tokens: int
    ) -> list[int]:
        """Greedy."""
        token_ids = list(prompt)
        for _ in range(max_tokens):
            token_ids.append(int(self.logits(token_ids, images).argmax()))
        return token_ids[len(prompt) :]

    def logits(self, token_ids: Sequence[int], images: Sequence[Seen]) -> Array:
        """Of the last position: [V]"""
        text, part = self._text, functools.partial(self._part, "language_model.model")
        x = part("embed_tokens")[list(token_ids)] * text["hidden_size"] ** 0.5
        groups = np.full(len(token_ids), -1)
        num_tokens = self._config["mm_tokens_per_image"]
        for number, image in enumerate(images):
            x[image.start : image.start + num_tokens] = self.states_of(image.pixels)
            groups[image.start : image.start + num_tokens] = number
        places = np.arange(len(token_ids))
        is_same = (groups[:, None] == groups) & (groups >= 0)
        full = (places[:, None] >= places) | is_same
        windowed = full & (places > places[:, None] - text["sliding_window"])
        for number in range(text["num_hidden_layers"]):
            is_full = (number + 1) % text["sliding_window_pattern"] == 0
            theta = text["rope_theta"] if is_full else text["rope_local_base_freq"]
            x = self._layer(x, f"layers.{number}", full if is_full else windowed, theta)
        x = self._rms(x[-1], part("norm"), text["rms_norm_eps"])
        return self._weights["language_model.lm_head.weight"] @ x

    def states_of(self, pixels: Array) -> Array:
        """[tokens, text D]"""
        key = pixels.tobytes()
        if key not in self._states:
            self._states[key] = self._projected(self._tower(pixels))
        return self._states[key]

    def _projected(self, states: Array) -> Array:
        side = self._vision["image_size"] // self._vision["patch_size"]
        tokens_side = round(self._config["mm_tokens_per_image"] ** 0.5)
        square = side // tokens_side
        pooled = np.array(
            [
                states.reshape(side, side, -1)[
                    line * square : (line + 1) * square, column * square : (column + 1) * square
                ].mean(axis=(0, 1))
                for line in range(tokens_side)
                for column in range(tokens_side)
            ]
        )
        projector = functools.partial(self._part, "multi_modal_projector")
        eps = self._vision.get("layer_norm_eps", 1e-6)
        normed = self._rms(pooled, projector("mm_soft_emb_norm"), eps)
        return normed @ projector("mm_input_projection_weight", "")

    def _tower(self, pixels: Array) -> Array:
        vision, processor = self._vision, self._processor
        part = functools.partial(self._part, "vision_tower.vision_model")
        eps, patch = vision.get("layer_norm_eps", 1e-6), vision["patch_size"]
        mean, std = np.array(processor["image_mean"]), np.array(processor["image_std"])
        image = (pixels * processor["rescale_factor"] - mean) / std
        side = vision["image_size"] // patch
        kernel = part("embeddings.patch_embedding")  # [D, 3, patch, patch]
        patches = image.reshape(side, patch, side, patch, 3).transpose(0, 2, 4, 1, 3)
        x = patches.reshape(side * side, -1) @ kernel.reshape(len(kernel), -1).T
        x += part("embeddings.patch_embedding", ".bias") + part("embeddings.position_embedding")
        everything = np.ones((len(x), len(x)), bool)
        for number in range(vision["num_hidden_layers"]):
            name = f"encoder.layers.{number}"
            normed = self._norm(x, part, f"{name}.layer_norm1", eps)
            heads = vision["num_attention_heads"]
            queries, keys, values = (
                _heads(_linear(normed, part, f"{name}.self_attn.{one}_proj"), heads)
                for one in "qkv"
            )
            attended = _attend(queries, keys, values, queries.shape[-1] ** -0.5, everything)
            x = x + _linear(attended, part, f"{name}.self_attn.out_proj")
            normed = self._norm(x, part, f"{name}.layer_norm2", eps)
            inner = _gelu(_linear(normed, part, f"{name}.mlp.fc1"))
            x = x + _linear(inner, part, f"{name}.mlp.fc2")
        return self._norm(x, part, "post_layernorm", eps)

    def _layer(self, x: Array, name: str, mask: Array, theta: float) -> Array:
        text = self._text
        part = functools.partial(self._part, f"language_model.model.{name}")
        rms = functools.partial(self._rms, eps=text["rms_norm_eps"])
        normed = rms(x, part("input_layernorm"))
        query_heads, key_heads = text["num_attention_heads"], text["num_key_value_heads"]
        queries = _heads(normed @ part("self_attn.q_proj").T, query_heads)
        keys = _heads(normed @ part("self_attn.k_proj").T, key_heads)
        values = _heads(normed @ part("self_attn.v_proj").T, key_heads)
        queries = _turned(rms(queries, part("self_attn.q_norm")), theta)
        keys = _turned(rms(keys, part("self_attn.k_norm")), theta)
        repeats = query_heads // key_heads
        keys, values = keys.repeat(repeats, axis=0), values.repeat(repeats, axis=0)
        scale = text["query_pre_attn_scalar"] ** -0.5
        attended = _attend(queries, keys, values, scale, mask) @ part("self_attn.o_proj").T
        x = x + rms(attended, part("post_attention_layernorm"))
        normed = rms(x, part("pre_feedforward_layernorm"))
        gate = _gelu(normed @ part("mlp.gate_proj").T) * (normed @ part("mlp.up_proj").T)
        return x + rms(gate @ part("mlp.down_proj").T, part("post_feedforward_layernorm"))

    def _part(self, whole: str, name: str, kind: str = ".weight") -> Array:
        return self._weights[f"{whole}.{name}{kind}"]

    def _rms(self, x: Array, weight: Array, eps: float) -> Array:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * (1 + weight)

    def _norm(self, x: Array, part: Any, name: str, eps: float) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return normed * part(name) + part(name, ".bias")


def _linear(x: Array, part: Any, name: str) -> Array:
    return x @ part(name).T + part(name, ".bias")


def _heads(x: Array, number: int) -> Array:
    return x.reshape(len(x), number, -1).transpose(1, 0, 2)


def _attend(queries: Array, keys: Array, values: Array, scale: float, mask: Array) -> Array:
    """[heads, n, D] each → [n, heads * D]"""
    scores = np.where(mask, queries @ keys.swapaxes(-1, -2) * scale, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    attended = powers / powers.sum(-1, keepdims=True) @ values
    return attended.transpose(1, 0, 2).reshape(queries.shape[1], -1)


def _turned(x: Array, theta: float) -> Array:
    """Rotary positions: the halves of a head turn together."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

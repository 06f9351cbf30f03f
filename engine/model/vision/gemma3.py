"""Slices with images of Gemma 3: its projector, and attention both ways among an image's tokens.

    pixels → tower → states of patches, averaged in squares → norm → projected: its tokens' states

mlx-lm's text model multiplies embeddings by the root of their size; an image's are not multiplied.
So the layers are called one by one here, as mlx-lm calls them, with masks that also let the tokens
of an image see those of it that come later:

    full layers:     before, or in the same image
    windowed layers: the same, within the window

as in transformers 5.24 (modeling_gemma3.py: create_masks_for_vision_model).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.models.base import create_attention_mask

from engine.core.images import Image
from engine.core.step import Slice
from engine.model import cpu_attention
from engine.model.caches import Caches
from engine.model.vision.sight import Look, with_image
from engine.model.vision.siglip import Layer, Siglip, SiglipConfig
from engine.sizing.images import Normalising


class Projector(nn.Module):
    """Patches' states to tokens'."""

    def __init__(self, config: SiglipConfig, *, num_tokens: int, text_size: int) -> None:
        super().__init__()
        self._eps = config.layer_norm_eps
        self._side = round(num_tokens**0.5)
        self._square = config.patches_per_side // self._side
        if self._side**2 != num_tokens or self._side * self._square != config.patches_per_side:
            raise ValueError(f"{num_tokens} tokens cannot stand for the patches of an image")
        self.mm_input_projection_weight = mx.zeros((config.hidden_size, text_size))
        self.mm_soft_emb_norm = nn.RMSNorm(config.hidden_size)

    def __call__(self, states: mx.array) -> mx.array:
        """[1, patches, D] → [tokens, text D]"""
        squares = (self._side, self._square, self._side, self._square, -1)
        pooled = states.reshape(squares).mean(axis=(1, 3)).flatten(0, 1)
        weight = 1.0 + self.mm_soft_emb_norm.weight
        normed = mx.fast.rms_norm(pooled, weight, self._eps)
        projected: mx.array = normed @ self.mm_input_projection_weight
        return projected


class Tower(nn.Module):
    """All weights beside the text model's, named as published."""

    def __init__(self, config: dict[str, Any], *, text_size: int) -> None:
        super().__init__()
        vision = SiglipConfig.of(config["vision_config"])
        num_tokens = int(config.get("mm_tokens_per_image") or 256)
        self.vision_tower = Siglip(vision)
        self.multi_modal_projector = Projector(vision, num_tokens=num_tokens, text_size=text_size)

    @property
    def layers(self) -> list[Layer]:
        layers: list[Layer] = self.vision_tower.encoder.layers
        return layers

    def begin(self, pixels: mx.array) -> mx.array:
        x: mx.array = self.vision_tower.embeddings(pixels)
        return x

    def end(self, x: mx.array) -> mx.array:
        states: mx.array = self.multi_modal_projector(self.vision_tower.post_layernorm(x))
        return states


class Gemma3Sight:
    """Reads slices with images. Owner: the model thread."""

    def __init__(self, model: Any, tower: Tower, normalising: Normalising) -> None:
        self._body = model.language_model.model
        self._tower = tower
        self._normalising = normalising

    @property
    def tower_layers(self) -> int:
        return len(self._tower.layers)

    def look(self, image: Image) -> Look:
        return Look(self._tower, image, self._normalising)

    def read(self, one: Slice, states: mx.array, caches: Caches) -> None:
        """Lazily."""
        body = self._body
        tokens = mx.array(one.token_ids, mx.uint32)
        x = body.embed_tokens(tokens)
        x = x * mx.array(body.args.hidden_size**0.5, mx.bfloat16).astype(x.dtype)
        x = with_image(x, one, states)
        pattern = body.sliding_window_pattern
        full = _mask(x, caches[pattern - 1], one, window=None)
        windowed = _mask(x, caches[0], one, window=body.window_size) if pattern > 1 else None
        *layers, last = body.layers
        for number, layer in enumerate(layers):
            is_full = number % pattern == pattern - 1
            x = layer(x, full if is_full else windowed, caches[number])
        is_full = len(layers) % pattern == pattern - 1
        with cpu_attention.unwanted():  # nothing but its keys and values is
            last(x, full if is_full else windowed, caches[-1])


def _mask(x: mx.array, cache: Any, one: Slice, *, window: int | None) -> Any:
    """mlx-lm's own, and what comes later in the same image."""
    if one.width == 1:
        return create_attention_mask(x, cache, window_size=window)
    mask = create_attention_mask(x, cache, window_size=window, return_array=True)
    later = _later_in_image(one.images, one.start_tokens, one.width)
    num_before = mask.shape[-1] - one.width
    return mask | mx.pad(mx.array(later), [(0, 0), (num_before, 0)])


def _later_in_image(images: Sequence[Image], start: int, width: int) -> np.ndarray[Any, Any]:
    """[n, n]: whether the second token is of the first one's image, and behind it."""
    numbers = np.zeros(width, np.int32)
    for number, image in enumerate(images, start=1):
        numbers[max(0, image.start - start) : image.stop - start] = number
    is_same = (numbers[:, None] == numbers) & (numbers > 0)
    return np.triu(is_same, 1)

"""The tower of SigLIP: pixels to a state of each patch. Names of weights are the published ones.

    [1, height, width, 3] → patches + positions → layers, in which all look at all → norm

"Sigmoid Loss for Language Image Pre-Training", arXiv 2303.15343. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.base import scaled_dot_product_attention

from engine.model import cpu_attention, kernels

_ACTIVATIONS = {"gelu_pytorch_tanh": nn.gelu_approx, "gelu": nn.gelu}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SiglipConfig:
    """As published configs name these, and what they leave out."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 16
    layer_norm_eps: float = 1e-6
    hidden_act: str = "gelu_pytorch_tanh"

    @classmethod
    def of(cls, config: dict[str, Any]) -> SiglipConfig:
        """From a `vision_config`. Raises ValueError for what is not built here."""
        known = {field.name for field in dataclasses.fields(cls)}
        read = cls(**{name: value for name, value in config.items() if name in known})
        if read.hidden_act not in _ACTIVATIONS:
            raise ValueError(f"the vision tower's activation {read.hidden_act!r} is not supported")
        if read.num_channels != 3 or read.hidden_size % read.num_attention_heads:
            raise ValueError("a vision tower of this shape is not supported")
        return read

    @property
    def patches_per_side(self) -> int:
        return self.image_size // self.patch_size


class Embeddings(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(
            config.num_channels,
            config.hidden_size,
            kernel_size=config.patch_size,
            stride=config.patch_size,
        )
        self.position_embedding = nn.Embedding(config.patches_per_side**2, config.hidden_size)

    def __call__(self, pixels: mx.array) -> mx.array:
        """[1, H, W, 3] → [1, patches, D], line by line from the top."""
        pixels = pixels.astype(self.patch_embedding.weight.dtype)
        patches = self.patch_embedding(pixels).flatten(1, 2)
        states: mx.array = patches + self.position_embedding.weight
        return states


class Attention(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        size, self._heads = config.hidden_size, config.num_attention_heads
        self._scale = (size // self._heads) ** -0.5
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)
        self.v_proj = nn.Linear(size, size)
        self.out_proj = nn.Linear(size, size)
        on_cpu = kernels.is_x86_processor()
        self._attend = cpu_attention.attention if on_cpu else scaled_dot_product_attention

    def __call__(self, x: mx.array) -> mx.array:
        queries, keys, values = (
            mx.unflatten(project(x), -1, (self._heads, -1)).swapaxes(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = self._attend(queries, keys, values, None, self._scale, None)
        mixed: mx.array = self.out_proj(attended.swapaxes(1, 2).flatten(2))
        return mixed


class Mlp(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self._activate = _ACTIVATIONS[config.hidden_act]

    def __call__(self, x: mx.array) -> mx.array:
        mixed: mx.array = self.fc2(self._activate(self.fc1(x)))
        return mixed


class Layer(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self_attn = Attention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = Mlp(config)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.self_attn(self.layer_norm1(x))
        mixed: mx.array = x + self.mlp(self.layer_norm2(x))
        return mixed


class Encoder(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        self.layers = [Layer(config) for _ in range(config.num_hidden_layers)]


class Siglip(nn.Module):
    def __init__(self, config: SiglipConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

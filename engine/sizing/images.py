"""Which models read images, and how: from config.json, preprocessor_config.json and the headers of
their weights."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path
from typing import Any

from engine.sizing.tensors import read_header

IMAGE_FAMILIES = frozenset({"gemma3"})
# What published configs leave out of a tower's
_SIGLIP = {
    **{"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
    **{"image_size": 224, "patch_size": 16},
}
TOWER = "vision_tower."  # in the names of its weights, whatever stands before


def reads_images(config: dict[str, Any]) -> bool:
    """By its config. A copy of it may have been made without what sees: see `sees`."""
    return config.get("model_type") in IMAGE_FAMILIES and isinstance(
        config.get("vision_config"), dict
    )


def sees(folder: Path, config: dict[str, Any]) -> bool:
    """Whether this model reads images, and its weights are all there: what mlx-lm has converted
    has no tower any more, though the config still speaks of it."""
    return reads_images(config) and any(TOWER in name for name in _tensor_names(folder))


def _tensor_names(folder: Path) -> list[str]:
    try:
        return [name for file in folder.glob("model*.safetensors") for name in read_header(file)]
    except (OSError, ValueError, struct.error):
        return []


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Normalising:
    """From a pixel's eight bits to what a tower takes: (bits * factor - mean) / std, by channel."""

    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)


def processor_settings(folder: Path) -> dict[str, Any]:
    """What the model's image processor is told; nothing where that cannot be read. Newer folders
    have it within processor_config.json."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        try:
            settings = json.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(settings, dict):
            inner = settings.get("image_processor", settings)
            return inner if isinstance(inner, dict) else {}
    return {}


def normalising_of(settings: dict[str, Any]) -> Normalising:
    usual = Normalising()
    rescales, normalises = settings.get("do_rescale", True), settings.get("do_normalize", True)
    factor = settings.get("rescale_factor") or usual.factor
    return Normalising(
        factor=factor if rescales else 1.0,
        mean=tuple(settings.get("image_mean") or usual.mean) if normalises else (0.0,) * 3,
        std=tuple(settings.get("image_std") or usual.std) if normalises else (1.0,) * 3,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TowerShape:
    """What looking at an image depends on: its patches, as the widest layer computes them."""

    num_patches: int
    hidden_size: int
    mlp_size: int
    heads: int
    num_tokens: int  # that an image is for the text model

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.heads

    def bytes_for(self, compute_bytes: int, *, has_scores: bool) -> int:
        """Of one image, in one layer. `has_scores`: attention's are an array."""
        elements = self.num_patches * (6 * self.hidden_size + 2 * self.mlp_size)
        scores = self.heads * self.num_patches**2 if has_scores else 0
        return (elements + 2 * scores) * compute_bytes


def tower_shape(config: dict[str, Any]) -> TowerShape | None:
    """None for a model that reads no images. Raises TypeError or ArithmeticError."""
    if not reads_images(config):
        return None
    vision = {**_SIGLIP, **config["vision_config"]}
    return TowerShape(
        num_patches=(vision["image_size"] // vision["patch_size"]) ** 2,
        hidden_size=vision["hidden_size"],
        mlp_size=vision["intermediate_size"],
        heads=vision["num_attention_heads"],
        num_tokens=config.get("mm_tokens_per_image") or 256,
    )

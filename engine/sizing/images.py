"""Which models read images, from config.json and the headers of their weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from engine.sizing.tensors import read_header

IMAGE_FAMILIES = frozenset({"gemma3"})
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

"""Which models read images, from config.json. Pure."""

from __future__ import annotations

from typing import Any

IMAGE_FAMILIES = frozenset({"gemma3", "idefics3", "smolvlm"})


def reads_images(config: dict[str, Any]) -> bool:
    return config.get("model_type") in IMAGE_FAMILIES and isinstance(
        config.get("vision_config"), dict
    )

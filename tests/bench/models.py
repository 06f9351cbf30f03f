"""The models that are measured, by short names."""

from __future__ import annotations

from pathlib import Path

from tests.tiny_models import LARGE, tiny_model_path

RECIPES = {"tiny": "tiny-qwen3", "small": "small-llama", "large": LARGE}
USUAL = ("tiny", "small")  # where no others are asked for; the large one is for accelerators


def model_path(name: str) -> Path:
    return tiny_model_path(RECIPES[name])

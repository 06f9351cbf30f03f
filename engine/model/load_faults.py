"""Why a model folder cannot be loaded, in a sentence for people who did not write the loader."""

from __future__ import annotations

import json
from pathlib import Path

import regex

from engine.sizing.exhaustion import is_out_of_memory

_MOST_CHARACTERS = 300
_UNKNOWN_TYPE = regex.compile(r"Model type (?P<type>\S+) not supported")
_MISSING = regex.compile(r"Missing (?P<count>\d+) parameters: *\s*(?P<first>[^\s,]+)")
_NEEDS_METAL = "No Metal back-end"
_VISION = ("vision_config", "visual", "vision_tower", "mm_vision_tower")


def explain(path: Path, error: Exception | SystemExit) -> str:
    """One line; what is not known better is the error's own first words."""
    told = str(error)
    config = _read_config(path)
    if match := _UNKNOWN_TYPE.search(told):
        return _unknown_type(match["type"], sees=any(name in config for name in _VISION))
    if isinstance(error, SystemExit):
        return f"what the architecture {config.get('model_type')!r} needs is not installed"
    if _NEEDS_METAL in told:
        return f"mlx-lm computes the architecture {config.get('model_type')!r} on a Mac's GPU only"
    if isinstance(code := config.get("model_file"), str):
        return f"it needs code of its own ({code}), which is never run"
    if not (path / "tokenizer.json").exists():
        return "it has no tokenizer.json"
    if match := _MISSING.search(told):
        return (
            f"{match['count']} of its weights are missing, such as {match['first']}: was every "
            "file copied?"
        )
    if is_out_of_memory(error):
        return "the device has no memory left for it; other programs may use it too"
    first_line = next(iter(told.strip().splitlines()), "")
    return f"{type(error).__name__}: {first_line}"[:_MOST_CHARACTERS]


def _unknown_type(model_type: str, *, sees: bool) -> str:
    if sees:
        return (
            f"mlx-lm has no text form of the architecture {model_type!r}, which also reads images"
        )
    return f"mlx-lm does not know the architecture {model_type!r}"


def _read_config(path: Path) -> dict[str, object]:
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}

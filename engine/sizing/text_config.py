"""The part of a config.json that is about text, and how long that text may be. Pure.

A model that also sees keeps its text part one level down, under one of several names, and what
stands outside may be the vision encoder's.
"""

from __future__ import annotations

from typing import Any

# For models that name no limit, such as mamba: memory is their limit.
DEFAULT_CONTEXT_TOKENS = 131_072
_TEXT_PARTS = ("text_config", "language_config", "llm_config")
_CONTEXT_NAMES = (
    *("max_position_embeddings", "max_sequence_length", "max_seq_len", "seq_length"),
    *("n_positions", "n_ctx"),
)
_MOST_TOKENS = 2**31  # more is no length but a mistake


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part that is about text, by whatever name; what only the outside says is kept."""
    for name in _TEXT_PARTS:
        if isinstance(inner := config.get(name), dict):
            return {"model_type": config.get("model_type"), **inner}
    return config


def context_limit(config: dict[str, Any]) -> int | None:
    """How many tokens the model takes; the text part counts, then what stands outside."""
    for part in (text_config(config), config):
        limits = (part.get(name) for name in _CONTEXT_NAMES)
        for one in limits:
            if isinstance(one, int) and 0 < one < _MOST_TOKENS:
                return one
    return None

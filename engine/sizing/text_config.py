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
    *("n_positions", "n_ctx", "model_max_length", "max_context_length"),
)
# What published configs leave to their family, by the type of the whole: as mlx-lm 0.32.2 has it.
_LEFT_OUT: dict[Any, dict[str, Any]] = {
    "gemma3": {
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "sliding_window_pattern": 6,
        "vocab_size": 262208,
    },
    "pixtral": {"num_attention_heads": 32},
}
_MOST_TOKENS = 2**31  # more is no length but a mistake


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part that is about text, by whatever name, with what it leaves to its family."""
    family = config.get("model_type")
    left_out = _LEFT_OUT.get(family, {})
    for name in _TEXT_PARTS:
        if isinstance(inner := config.get(name), dict):
            return {**left_out, "model_type": family, **inner}
    return {**left_out, **config}


def context_limit(config: dict[str, Any]) -> int | None:
    """How many tokens the model takes; the text part counts, then what stands outside."""
    for part in (text_config(config), config):
        limits = (part.get(name) for name in _CONTEXT_NAMES)
        for one in limits:
            if isinstance(one, int) and 0 < one < _MOST_TOKENS:
                return one
    return None

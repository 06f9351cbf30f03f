"""What a config.json says of a model's sizes: nested or legacy, with windows and states.

The text part's config counts: a top-level `num_hidden_layers` may be the vision encoder's. It knows
what mlx-lm's caches keep for a family, not what happens to be loaded.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from engine.sizing import families, fields
from engine.sizing.images import TowerShape, tower_shape
from engine.sizing.layers import FullLayers, Layers
from engine.sizing.text_config import context_limit, text_config


class UnreadableConfig(Exception):
    """The memory that this model needs cannot be told from its config."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`head_size` is that of queries and keys; `mlp_size` what one token's MLP is wide, all active
    experts together; `layers` what the caches keep. `has_own_attention`: its scores are arrays of
    its own, however others' are computed."""

    hidden_size: int
    query_heads: int
    head_size: int
    mlp_size: int
    vocab_size: int
    layers: tuple[Layers, ...]
    context_limit_tokens: int | None = None
    has_own_attention: bool = False
    tower: TowerShape | None = None  # where it reads images


def read_shape(folder: Path) -> Shape:
    """Raises UnreadableConfig, which says what is missing."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableConfig(f"config.json cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise UnreadableConfig("config.json holds no object")
    return shape_of(config)


def shape_of(config: dict[str, Any]) -> Shape:
    """Raises UnreadableConfig."""
    text = text_config(config)
    try:
        return Shape(
            hidden_size=fields.hidden_size(text),
            query_heads=fields.most_query_heads(text),
            head_size=fields.head_size(text),
            mlp_size=fields.mlp_size(text),
            vocab_size=fields.required({**config, **text}, "vocab_size", "num_vocab"),
            layers=families.cached_layers(text),
            context_limit_tokens=context_limit(config),
            has_own_attention=families.has_own_attention(text),
            tower=tower_shape(config),
        )
    except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        what = str(error).strip("'\"")
        raise UnreadableConfig(f"its config.json does not tell its sizes: {what}") from error


def has_full_layers(shape: Shape) -> bool:
    """Whether a longer row always needs more memory."""
    return any(isinstance(one, FullLayers) for one in shape.layers)

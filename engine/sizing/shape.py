"""What a config.json says of a model's sizes: nested or legacy, with windows and states.

The text part's config counts: a top-level `num_hidden_layers` may be the vision encoder's. It knows
what mlx-lm's caches keep for a family, not what happens to be loaded.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from engine.sizing import families
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
        hidden = _first(text, "hidden_size", "n_embd", "d_model", "dim", "model_dim")
        num_layers = _first(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
        heads = int(
            text.get("num_attention_heads") or text.get("n_head") or text.get("n_heads") or 0
        )
        return Shape(
            hidden_size=hidden,
            query_heads=heads,
            head_size=families.head_size(text, hidden=hidden, heads=heads),
            mlp_size=_mlp_size(text, hidden),
            vocab_size=_first(text, "vocab_size", fallback=config.get("vocab_size")),
            layers=families.cached_layers(text, hidden=hidden, heads=heads, num_layers=num_layers),
            context_limit_tokens=context_limit(config),
            has_own_attention=families.has_own_attention(text),
        )
    except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        what = str(error).strip("'\"")
        raise UnreadableConfig(f"its config.json does not tell its sizes: {what}") from error


def _first(config: dict[str, Any], *names: str, fallback: Any = None) -> int:
    for value in (*(config.get(name) for name in names), fallback):
        if isinstance(value, int) and value > 0:
            return value
    raise LookupError(f"it has no {names[0]}")


def _mlp_size(text: dict[str, Any], hidden: int) -> int:
    sizes = (text.get(name) for name in ("intermediate_size", "n_inner", "ffn_dim"))
    dense = next((one for one in sizes if isinstance(one, int)), 4 * hidden)
    per_token = text.get("num_experts_per_tok") or text.get("moe_topk") or 0
    expert = text.get("moe_intermediate_size") or (dense if per_token else 0)
    shared = text.get("shared_expert_intermediate_size") or 0
    shared += (text.get("n_shared_experts") or 0) * expert
    return max(dense, int(per_token) * int(expert) + int(shared))


def has_full_layers(shape: Shape) -> bool:
    """Whether a longer row always needs more memory."""
    return any(isinstance(one, FullLayers) for one in shape.layers)

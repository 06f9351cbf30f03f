"""What a config.json says of an encoder: a model that reads whole texts and writes none. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Positions of these begin after that of padding.
ROBERTA_TYPES = frozenset({"roberta", "xlm-roberta", "camembert"})
ENCODER_TYPES = ROBERTA_TYPES | {"bert", "modernbert"}
_PADDING_ID = 1
_SCORING = "ForSequenceClassification"


def is_encoder(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") in ENCODER_TYPES


def is_cross_encoder(config: Mapping[str, Any]) -> bool:
    """It scores two texts that it reads together."""
    names = config.get("architectures")
    named = isinstance(names, list) and any(str(one).endswith(_SCORING) for one in names)
    return is_encoder(config) and named


def first_position(config: Mapping[str, Any]) -> int:
    """Which of its positions a text's first token has."""
    if config.get("model_type") not in ROBERTA_TYPES:
        return 0
    padding = config.get("pad_token_id")
    return (padding if isinstance(padding, int) else _PADDING_ID) + 1


def most_positions(config: Mapping[str, Any]) -> int | None:
    """How many tokens its positions can tell apart."""
    limit = config.get("max_position_embeddings")
    return limit - first_position(config) if isinstance(limit, int) else None


def is_bidirectional_decoder(config: Mapping[str, Any]) -> bool:
    """Made of a model that writes, but its tokens see those behind them."""
    says_so = config.get("use_bidirectional_attention") or config.get("is_causal") is False
    return bool(says_so) and not is_encoder(config)

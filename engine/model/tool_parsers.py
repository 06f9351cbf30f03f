"""Which of mlx-lm's tool parsers a model has, by name."""

from __future__ import annotations

from typing import Any


def parser_name(tokenizer: Any) -> str | None:
    """None for a model without tool calls of its own."""
    parser = tokenizer.tool_parser
    return parser.__module__.rpartition(".")[2] if parser is not None else None

"""mlx-lm's tool parsers: which one a model has, and what they can be told of tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parser_name(tokenizer: Any) -> str | None:
    """None for a model without tool calls of its own."""
    parser = tokenizer.tool_parser
    return parser.__module__.rpartition(".")[2] if parser is not None else None


def tools_for_parsers(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parsers look at each parameter's type, and do not follow references to it."""
    return [{**tool, "function": _resolved(tool["function"])} for tool in tools]


def _resolved(function: dict[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(parameters, dict) or not isinstance(properties, dict):
        return function
    found = {name: _target(parameters, schema) for name, schema in properties.items()}
    return {**function, "parameters": {**parameters, "properties": found}}


def _target(root: dict[str, Any], schema: Any) -> Any:
    """What `{"$ref": "#/$defs/name"}` refers to; anything else as it is."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    match reference.split("/") if isinstance(reference, str) else None:
        case ["#", group, name] if isinstance(root.get(group), dict):
            return root[group].get(name, schema)
    return schema

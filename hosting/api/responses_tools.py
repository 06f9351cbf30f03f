"""Tools of a response as chat tools, and the choice among them. A custom tool takes one text.

Types that run at OpenAI, or that only a client knows, are ignored.
"""

from __future__ import annotations

import json
from typing import Any

from hosting.api.errors import invalid, unsupported

_TEXT_ONLY = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def chat_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Raises ApiError naming the tool at fault."""
    read = (_chat_tool(tool, f"tools[{place}]") for place, tool in enumerate(tools))
    return [tool for tool in read if tool is not None]


def custom_names(tools: list[Any]) -> frozenset[str]:
    """The tools whose calls are plain text, not JSON."""
    return frozenset(tool["name"] for tool in tools if tool.get("type") == "custom")


def chat_tool_choice(choice: Any) -> Any:
    """Raises ApiError."""
    if choice is None or isinstance(choice, str):
        return choice
    if not isinstance(choice, dict):
        raise invalid("tool_choice", "This must be text or an object.")
    match choice.get("type"):
        case "function" | "custom":
            name = choice.get("name")
            if not isinstance(name, str):
                raise invalid("tool_choice.name", "This must name a tool.")
            return {"type": "function", "function": {"name": name}}
        case "allowed_tools":
            raise unsupported("tool_choice", "Send only the tools that may be called.")
    raise unsupported("tool_choice", "Only functions and custom tools can be chosen.")


def echoed_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """The tools that count, with the fields that a response must show."""
    blank = {"description": None, "parameters": None, "strict": None}
    return [
        (blank | tool if tool["type"] == "function" else tool)
        for tool in tools
        if tool.get("type") in ("function", "custom")
    ]


def custom_input(arguments: str) -> str:
    """The text in the arguments of a custom tool's call; what is no such JSON, as it came."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return arguments
    text = given.get("input") if isinstance(given, dict) else None
    return text if isinstance(text, str) else arguments


def _chat_tool(tool: Any, where: str) -> dict[str, Any] | None:
    if not isinstance(tool, dict):
        raise invalid(where, "A tool must be an object.")
    match tool.get("type"):
        case "function":
            _check_name(tool, where)
            _check_parameters(tool, where)
            named = ("name", "description", "parameters", "strict")
            function = {name: tool[name] for name in named if tool.get(name) is not None}
        case "custom":
            _check_name(tool, where)
            function = {
                "name": tool["name"],
                "description": _custom_description(tool, where),
                "parameters": _TEXT_ONLY,
            }
        case _:
            return None
    return {"type": "function", "function": function}


def _check_name(tool: dict[str, Any], where: str) -> None:
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise invalid(f"{where}.name", "A tool needs a name.")


def _check_parameters(tool: dict[str, Any], where: str) -> None:
    parameters = tool.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid(f"{where}.parameters", "This must be a JSON schema.")


def _custom_description(tool: dict[str, Any], where: str) -> str:
    """With the grammar of its input: models read it, nobody enforces it."""
    description = tool.get("description") or ""
    form = tool.get("format") or {}
    if not isinstance(description, str) or not isinstance(form, dict):
        raise invalid(where, "A custom tool's description must be text, its format an object.")
    if form.get("type") == "grammar":
        description += f"\n\nThe input follows this grammar:\n{form.get('definition', '')}"
    return description.strip()

"""Tools of a response as chat tools, and the choice among them. A custom tool takes one text.

Tools of a namespace (Codex's name for an MCP server) are known to the model by both names in one.
Types that run at OpenAI, or that only a client knows, are ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from hosting.api.errors import invalid, unsupported
from hosting.json_body import BadJson, read_json

_TEXT_ONLY = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ItemTool:
    """A tool as an item that calls it says. `is_custom`: it is given plain text, not JSON."""

    name: str
    namespace: str | None = None
    is_custom: bool = False


def chat_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Raises ApiError naming the tool at fault."""
    read = (_chat_tool(tool, where, namespace) for tool, where, namespace in _each(tools))
    return [tool for tool in read if tool is not None]


def item_tools(tools: list[Any]) -> dict[str, ItemTool]:
    """By the name under which the model knows each. Of tools that were read."""
    return {
        chat_name(tool["name"], namespace): ItemTool(
            name=tool["name"], namespace=namespace, is_custom=tool["type"] == "custom"
        )
        for tool, _, namespace in _each(tools)
        if tool.get("type") in ("function", "custom")
    }


def chat_name(name: str, namespace: str | None) -> str:
    return name if namespace is None else f"{namespace.removesuffix('__')}__{name}"


def chat_tool_choice(choice: Any) -> Any:
    """Raises ApiError."""
    if choice is None or isinstance(choice, str):
        return choice
    if not isinstance(choice, dict):
        raise invalid("tool_choice", "This must be text or an object.")
    match choice.get("type"):
        case "function" | "custom":
            return _chosen(choice, "tool_choice")
        case "allowed_tools":
            return {"type": "allowed_tools", "allowed_tools": _allowed(choice)}
    raise unsupported("tool_choice", "Only functions and custom tools can be chosen.")


def echoed_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """The tools that count, with the fields that a response must show."""
    blank = {"description": None, "parameters": None, "strict": None}
    return [
        (blank | tool if tool["type"] == "function" else tool)
        for tool in tools
        if tool.get("type") in ("function", "custom", "namespace")
    ]


def custom_input(arguments: str) -> str:
    """The text in the arguments of a custom tool's call; what is no such JSON, as it came."""
    try:
        given = read_json(arguments.encode())
    except BadJson:
        return arguments
    text = given.get("input") if isinstance(given, dict) else None
    return text if isinstance(text, str) else arguments


def _allowed(choice: dict[str, Any]) -> dict[str, Any]:
    """Of types that are ignored among the tools, so are those that are allowed."""
    tools = choice.get("tools")
    if not isinstance(tools, list):
        raise invalid("tool_choice.tools", "This must be a list of tools.")
    kept = []
    for place, tool in enumerate(tools):
        where = f"tool_choice.tools[{place}]"
        if not isinstance(tool, dict):
            raise invalid(where, "A tool must be an object.")
        if tool.get("type") in ("function", "custom"):
            kept.append(_chosen(tool, where))
    return {"mode": choice.get("mode"), "tools": kept}


def _chosen(choice: dict[str, Any], where: str) -> dict[str, Any]:
    name, namespace = choice.get("name"), choice.get("namespace")
    if not isinstance(name, str):
        raise invalid(f"{where}.name", "This must name a tool.")
    if not isinstance(namespace, str | None):
        raise invalid(f"{where}.namespace", "This must name a namespace.")
    return {"type": "function", "function": {"name": chat_name(name, namespace)}}


def _each(tools: list[Any]) -> Iterator[tuple[Any, str, str | None]]:
    """Each tool, where it is, and its namespace. Raises ApiError."""
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        if not isinstance(tool, dict) or tool.get("type") != "namespace":
            yield tool, where, None
            continue
        _check_name(tool, where)
        if not isinstance(tool.get("tools"), list):
            raise invalid(f"{where}.tools", "This must be a list of tools.")
        for inner_place, inner in enumerate(tool["tools"]):
            yield inner, f"{where}.tools[{inner_place}]", tool["name"]


def _chat_tool(tool: Any, where: str, namespace: str | None) -> dict[str, Any] | None:
    if not isinstance(tool, dict):
        raise invalid(where, "A tool must be an object.")
    match tool.get("type"):
        case "function":
            _check_name(tool, where)
            _check_parameters(tool, where)
            kept = ("description", "parameters", "strict")
            function = {name: tool[name] for name in kept if tool.get(name) is not None}
        case "custom":
            _check_name(tool, where)
            function = {
                "description": _custom_description(tool, where),
                "parameters": _TEXT_ONLY,
            }
        case _:
            return None
    named = {"name": chat_name(tool["name"], namespace)}
    return {"type": "function", "function": named | function}


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

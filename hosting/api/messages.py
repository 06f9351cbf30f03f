"""Messages and tools of a request in the one form that the wire carries. Nothing is reordered."""

from __future__ import annotations

from typing import Any

from hosting.actions.image_data import ImageData
from hosting.api.content import Content, Part, content_of, image_in_url, text_only
from hosting.api.errors import ApiError, invalid, unsupported
from hosting.api.result_images import after_results

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_WITH_IMAGES = ("user", "tool")
_BILLING = "x-anthropic-billing-header"


def wire_messages(messages: list[Any]) -> tuple[dict[str, Any], ...]:
    """Raises ApiError or Refusal naming the message at fault."""
    if not messages:
        raise invalid("messages", "There must be at least one message.")
    read = (_message(message, f"messages[{index}]") for index, message in enumerate(messages))
    return tuple(after_results(read))


def wire_tools(tools: list[Any] | None) -> tuple[dict[str, Any], ...]:
    """Function tools. Types that we do not know are the client's private matter and are ignored."""
    return tuple(
        _tool(tool, f"tools[{index}]")
        for index, tool in enumerate(tools or ())
        if not isinstance(tool, dict) or tool.get("type", "function") in ("function", "custom")
    )


def custom_unsupported(where: str) -> ApiError:
    """Clients of chat completions know no stream of a custom tool's calls."""
    return unsupported(f"{where}.custom", "Send a function, or call /v1/responses.")


def without_billing(system: str) -> str:
    """Claude Code's first line changes with every prompt, so that no prefix would be found."""
    return system.partition("\n")[2].lstrip("\n") if system.startswith(_BILLING) else system


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise invalid(where, "A message must be an object with a role and a content.")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid(f"{where}.role", f"The role must be one of {', '.join(_ROLES)}.")
    if message.get("function_call"):
        raise unsupported(f"{where}.function_call", "Send 'tool_calls' instead.")
    plain: dict[str, Any] = {"role": _ROLES[role]}
    calls = _tool_calls(message, where) if role == "assistant" else []
    content = _content(message.get("content"), where, may_be_absent=role == "assistant")
    plain["content"] = content if plain["role"] in _WITH_IMAGES else text_only(content)
    if plain["role"] == "system":
        plain["content"] = without_billing(plain["content"])
    if calls:
        plain["tool_calls"] = calls
    for name in ("name", "tool_call_id", "reasoning_content"):
        value = message.get(name)
        if value is not None:
            plain[name] = text_at(value, f"{where}.{name}")
    return plain


def _content(content: Any, where: str, *, may_be_absent: bool) -> Content:
    if isinstance(content, str):
        return content
    if content is None and may_be_absent:
        return ""
    if isinstance(content, list):
        parts = (_part(part, f"{where}.content[{index}]") for index, part in enumerate(content))
        return content_of(parts, "\n")
    raise invalid(f"{where}.content", "The content must be text or a list of parts.")


def _part(part: Any, where: str) -> Part:
    if isinstance(part, ImageData):  # which another dialect has read
        return part
    if not isinstance(part, dict):
        raise invalid(where, "A content part must be an object.")
    match part.get("type"):
        case "text" | "refusal" as kind:
            return text_at(part.get(kind), f"{where}.{kind}")
        case "image_url":
            return _image(part.get("image_url"), f"{where}.image_url")
        case "input_audio" | "file" as kind:
            raise unsupported(where, f"Text and images are read here, not {kind}.")
    raise invalid(f"{where}.type", "The type of this part is not known.")


def _image(image: Any, where: str) -> ImageData:
    """The model has its own way to see details: what is said of them is ignored."""
    if not isinstance(image, dict):
        raise invalid(where, "This must be an object with a url.")
    return image_in_url(image.get("url"), f"{where}.url")


def _tool_calls(message: dict[str, Any], where: str) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise invalid(f"{where}.tool_calls", "This must be a list.")
    return [_tool_call(call, f"{where}.tool_calls[{place}]") for place, call in enumerate(calls)]


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    """The arguments stay the client's text, byte for byte: they are part of the cached prefix."""
    if isinstance(call, dict) and call.get("type") == "custom":
        raise custom_unsupported(where)
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise invalid(f"{where}.function", "A tool call needs a function.")
    return {
        "id": text_at(call.get("id"), f"{where}.id"),
        "type": "function",
        "function": {
            "name": text_at(function.get("name"), f"{where}.function.name"),
            "arguments": text_at(function.get("arguments", "{}"), f"{where}.function.arguments"),
        },
    }


def _tool(tool: Any, where: str) -> dict[str, Any]:
    if isinstance(tool, dict) and tool.get("type") == "custom":
        raise custom_unsupported(where)
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        raise invalid(f"{where}.function", "A tool needs a function.")
    if not text_at(function.get("name"), f"{where}.function.name"):
        raise invalid(f"{where}.function.name", "A function needs a name.")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid(f"{where}.function.parameters", "This must be a JSON schema.")
    said = {name: value for name, value in function.items() if value is not None}
    return {"type": "function", "function": said}


def text_at(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise invalid(where, "This must be text.")
    return value

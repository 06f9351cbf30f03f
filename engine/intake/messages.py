"""A conversation and its tools: checked, and brought into the one form that templates read.

It does not know templates or tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from engine import wire
from engine.intake.refusal import invalid

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
MAX_MESSAGES = 10_000
MAX_TOOLS = 512

Message = dict[str, Any]
Content = str | list[dict[str, str]]


class Arguments(dict[str, Any]):
    """A tool call's arguments as a mapping that still knows how the client wrote them."""

    def __init__(self, values: dict[str, Any], *, source: str) -> None:
        super().__init__(values)
        self.source = source


def clean_messages(messages: Sequence[object]) -> list[Message]:
    """The messages with known keys only, contents as text or, where images are shown, as parts.
    Raises Refusal."""
    if not messages:
        raise invalid("messages", "messages must not be empty.")
    if len(messages) > MAX_MESSAGES:
        raise invalid(
            "messages",
            f"At most {MAX_MESSAGES} messages are allowed, not {len(messages)}.",
            limit=MAX_MESSAGES,
            given=len(messages),
        )
    return [_clean_message(f"messages[{i}]", message) for i, message in enumerate(messages)]


def clean_tools(tools: Sequence[object]) -> list[Message]:
    """The function tools; other kinds are left out, as no model here could call them."""
    if len(tools) > MAX_TOOLS:
        raise invalid("tools", f"At most {MAX_TOOLS} tools are allowed.", limit=MAX_TOOLS)
    cleaned = (_clean_tool(f"tools[{i}]", tool) for i, tool in enumerate(tools))
    return [tool for tool in cleaned if tool is not None]


def with_mapped_arguments(message: Message) -> Message:
    """For templates that want a tool call's arguments as a mapping."""
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**function, "arguments": _mapped(function["arguments"])}}
        for call in message["tool_calls"]
        for function in [call["function"]]
    ]
    return {**message, "tool_calls": calls}


def _mapped(source: str) -> Arguments:
    try:
        values = json.loads(source)
    except (ValueError, RecursionError):  # a model wrote them, and models err
        values = {}
    if not isinstance(values, dict) or wire.is_deeper(values, wire.MAX_DEPTH):
        values = {}
    if "\\ud" in source.lower():
        values = _with_whole_characters(values)
    return Arguments(values, source=source)


def _with_whole_characters(values: Any) -> Any:
    """Escapes may have brought half an emoji, which no tokenizer takes."""
    text = json.dumps(values, ensure_ascii=False)
    return json.loads(text.encode(errors="replace"))


def with_systems_in_place(messages: list[Message]) -> list[Message]:
    """For templates that take one system message, at the beginning: those that come first are one,
    later ones stay where they are, as a user's text. Moving them would change every prefix.
    """
    placed: list[Message] = []
    for message in messages:
        is_late = message["role"] == "system" and any(one["role"] != "system" for one in placed)
        if is_late:
            reminder = f"<system-reminder>\n{message['content']}\n</system-reminder>"
            message = {"role": "user", "content": reminder}
        if placed and _goes_on(message, placed[-1], is_late=is_late):
            content = _one_behind_other(placed[-1]["content"], message["content"])
            message = {**placed.pop(), "content": content}
        placed.append(message)
    return placed


def _one_behind_other(first: Content, second: Content) -> Content:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts("\n\n"), *_parts(second)]


def _parts(content: Content) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _goes_on(message: Message, last: Message, *, is_late: bool) -> bool:
    if message["role"] != last["role"]:
        return False
    is_reminded = message["role"] == "user" and (is_late or _is_reminder(last))
    return is_reminded or message["role"] == "system"


def _is_reminder(message: Message) -> bool:
    *_, last = _parts(message["content"])
    return last.get("text", "").endswith("</system-reminder>")


def clean_template_options(options: object) -> dict[str, Any]:
    """Templates know the switch for thinking by one of two names. Raises Refusal."""
    if not isinstance(options, dict):
        raise invalid("chat_template_kwargs", "chat_template_kwargs must be an object.")
    for name in options:
        if not wire.is_template_option(name):
            raise invalid("chat_template_kwargs", f"'{name[:40]}' is no template option.")
    if "enable_thinking" in options:
        return {"thinking": options["enable_thinking"], **options}
    return options


def check_text(param: str, text: object) -> str:
    if not isinstance(text, str):
        raise invalid(param, f"{param} must be a string, not {type(text).__name__}.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise invalid(param, f"{param} contains half a surrogate pair.") from None
    return text


def _clean_message(param: str, message: object) -> Message:
    if not isinstance(message, dict):
        raise invalid(param, f"{param} must be an object, not {type(message).__name__}.")
    role = _clean_role(param, message.get("role"))
    cleaned: Message = {"role": role}
    if calls := message.get("tool_calls"):
        cleaned["tool_calls"] = list(_clean_calls(f"{param}.tool_calls", calls, role))
    may_be_absent = role == "assistant" and (bool(calls) or _has_reasoning(message))
    cleaned["content"] = _clean_content(
        f"{param}.content", message.get("content"), may_be_absent=may_be_absent
    )
    for name in ("name", "tool_call_id"):
        if message.get(name) is not None:
            cleaned[name] = check_text(f"{param}.{name}", message[name])
    for name in ("reasoning_content", "reasoning"):
        if role == "assistant" and message.get(name) is not None:
            cleaned["reasoning_content"] = check_text(f"{param}.{name}", message[name])
    return cleaned


def _clean_role(param: str, role: object) -> str:
    if not isinstance(role, str) or role not in ROLES:
        allowed = ", ".join(ROLES)
        raise invalid(f"{param}.role", f"{param}.role must be one of {allowed}.")
    return ROLES[role]


def _has_reasoning(message: Message) -> bool:
    return bool(message.get("reasoning_content") or message.get("reasoning"))


def _clean_content(param: str, content: object, *, may_be_absent: bool) -> Content:
    if content is None and may_be_absent:
        return ""
    if not isinstance(content, list):
        return check_text(param, content)
    parts = [_clean_part(f"{param}[{i}]", part) for i, part in enumerate(content)]
    if any(one["type"] == "image" for one in parts):
        return parts
    return "".join(one["text"] for one in parts)


def _clean_part(param: str, part: object) -> dict[str, str]:
    """What an image shows is checked by itself (images.py)."""
    if not isinstance(part, dict):
        raise invalid(param, f"{param} must be an object, not {type(part).__name__}.")
    kind = part.get("type")
    if kind == "image":
        return {"type": kind}
    if kind not in ("text", "input_text", "output_text"):
        raise invalid(f"{param}.type", f"{param}.type must be 'text' or 'image'.")
    return {"type": "text", "text": check_text(f"{param}.text", part.get("text"))}


def _clean_calls(param: str, calls: object, role: str) -> Iterator[Message]:
    if role != "assistant":
        raise invalid(param, f"{param} may only be set on an assistant message.")
    if not isinstance(calls, list):
        raise invalid(param, f"{param} must be a list, not {type(calls).__name__}.")
    for i, call in enumerate(calls):
        yield _clean_call(f"{param}[{i}]", call)


def _clean_call(param: str, call: object) -> Message:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise invalid(f"{param}.function", f"{param}.function must be an object.")
    cleaned: Message = {
        "type": "function",
        "function": {
            "name": check_text(f"{param}.function.name", function.get("name")),
            "arguments": check_text(
                f"{param}.function.arguments", function.get("arguments") or "{}"
            ),
        },
    }
    if call.get("id") is not None:
        cleaned["id"] = check_text(f"{param}.id", call["id"])
    return cleaned


def _clean_tool(param: str, tool: object) -> Message | None:
    if not isinstance(tool, dict):
        raise invalid(param, f"{param} must be an object, not {type(tool).__name__}.")
    if tool.get("type", "function") != "function":
        return None
    function = tool.get("function")
    if not isinstance(function, dict):
        raise invalid(f"{param}.function", f"{param}.function must be an object.")
    if not check_text(f"{param}.function.name", function.get("name")):
        raise invalid(f"{param}.function.name", f"{param}.function.name must not be empty.")
    if not isinstance(function.get("parameters", {}), dict):
        raise invalid(f"{param}.function.parameters", f"{param}.function.parameters: an object.")
    if function.get("description") is not None:
        check_text(f"{param}.function.description", function["description"])
    return {"type": "function", "function": function}

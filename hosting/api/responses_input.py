"""The items of a response's `input` as chat messages. What a client replays comes back in place.

reasoning, message, function_call, function_call ...   → one assistant message
function_call_output                                   → a tool message
"""

from __future__ import annotations

import json
from typing import Any

from hosting.actions.image_data import ImageData
from hosting.api.content import Content, Part, content_of, image_in_url, text_only
from hosting.api.errors import invalid, unsupported
from hosting.api.messages import text_at
from hosting.api.responses_tools import chat_name
from hosting.api.sealing import unsealed

_NOT_STORED = 'Items are not stored here: send the whole item. Clients do so with "store": false.'
_ROLES = ("user", "assistant", "system", "developer")
# Traces of tools that run at OpenAI: our models have never seen them
_FOREIGN = frozenset(
    (
        *("file_search_call", "web_search_call", "computer_call", "computer_call_output"),
        *("image_generation_call", "code_interpreter_call", "local_shell_call"),
        *("local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call"),
        *("apply_patch_call_output", "mcp_list_tools", "mcp_call", "mcp_approval_request"),
        *("mcp_approval_response", "tool_search_call", "tool_search_output", "additional_tools"),
        *("compaction", "compaction_trigger", "program", "program_output"),
    )
)


def chat_messages(given: Any, *, instructions: str | None) -> list[dict[str, Any]]:
    """`given` is text or a list of items. Raises ApiError or Refusal naming the item at
    fault."""
    reader = _Reader()
    if instructions:
        reader.add_message("system", instructions)
    if isinstance(given, str):
        reader.add_message("user", given)
    elif isinstance(given, list) and given:
        for place, item in enumerate(given):
            reader.take(item, f"input[{place}]")
    else:
        raise invalid("input", "This must be text, or a list of at least one item.")
    return reader.messages


class _Reader:
    """Items one by one; those of one assistant turn become one message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def add_message(self, role: str, content: Content) -> None:
        """Leading instructions are one system message: most templates know only one."""
        is_leading = all(message["role"] == "system" for message in self.messages)
        if role == "system" and self.messages and is_leading:
            self.messages[-1]["content"] += f"\n\n{content}"
        else:
            self.messages.append({"role": role, "content": content})

    def take(self, item: Any, where: str) -> None:
        if not isinstance(item, dict):
            raise invalid(where, "An item must be an object.")
        match item.get("type", "message"):
            case "message":
                self._take_message(item, where)
            case "reasoning":
                self._assistant(begins="reasoning_content")["reasoning_content"] = _thoughts(
                    item, where
                )
            case "function_call":
                self._take_call(item, text_at(item.get("arguments"), f"{where}.arguments"), where)
            case "custom_tool_call":
                given = text_at(item.get("input"), f"{where}.input")
                self._take_call(item, json.dumps({"input": given}, ensure_ascii=False), where)
            case "function_call_output" | "custom_tool_call_output":
                self._take_result(item, where)
            case "item_reference":
                raise unsupported(where, _NOT_STORED)
            case kind if not isinstance(kind, str) or kind not in _FOREIGN:
                raise invalid(f"{where}.type", "The type of this item is not known.")

    def _take_message(self, item: dict[str, Any], where: str) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise invalid(f"{where}.role", f"The role must be one of {', '.join(_ROLES)}.")
        content = _content(item.get("content"), f"{where}.content")
        if role == "user":
            self.add_message(role, content)
        elif role == "assistant":
            self._assistant(begins="content")["content"] = text_only(content)
        else:
            self.add_message("system", text_only(content))

    def _take_call(self, item: dict[str, Any], arguments: str, where: str) -> None:
        name, namespace = text_at(item.get("name"), f"{where}.name"), item.get("namespace")
        if namespace is not None:
            text_at(namespace, f"{where}.namespace")
        call = {
            "id": text_at(item.get("call_id"), f"{where}.call_id"),
            "type": "function",
            "function": {"name": chat_name(name, namespace), "arguments": arguments},
        }
        self._assistant().setdefault("tool_calls", []).append(call)

    def _take_result(self, item: dict[str, Any], where: str) -> None:
        call_id = text_at(item.get("call_id"), f"{where}.call_id")
        output = _content(item.get("output"), f"{where}.output")
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": output})

    def _assistant(self, *, begins: str | None = None) -> dict[str, Any]:
        """The assistant message under way; a new one where `begins`, or what follows it, is set."""
        order = ("reasoning_content", "content", "tool_calls")
        taken = order[order.index(begins) :] if begins else ()
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant" or any(last.get(name) for name in taken):
            self.messages.append({"role": "assistant", "content": ""})
        return self.messages[-1]


def _thoughts(item: dict[str, Any], where: str) -> str:
    """What was thought, else the seal of it, else the summary."""
    for name in ("content", "summary"):
        if not isinstance(item.get(name) or [], list):
            raise invalid(f"{where}.{name}", "This must be a list of parts.")
    sealed = item.get("encrypted_content")
    for text in (
        _joined(item.get("content"), f"{where}.content"),
        unsealed(sealed) if isinstance(sealed, str) else "",
    ):
        if text:
            return text
    return _joined(item.get("summary"), f"{where}.summary")


def _joined(parts: Any, where: str) -> str:
    return text_only(_content(parts, where)) if parts else ""


def _content(content: Any, where: str) -> Content:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (_part(part, f"{where}[{place}]") for place, part in enumerate(content))
        return content_of(parts, "\n")
    raise invalid(where, "The content must be text or a list of parts.")


def _part(part: Any, where: str) -> Part:
    if not isinstance(part, dict):
        raise invalid(where, "A content part must be an object.")
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text":
            return text_at(part.get("text"), f"{where}.text")
        case "refusal":
            return text_at(part.get("refusal"), f"{where}.refusal")
        case "input_image":
            return _image(part, where)
        case "input_file" | "input_audio" as kind:
            raise unsupported(where, f"Text and images are read here, not {kind}.")
    raise invalid(f"{where}.type", "The type of this part is not known.")


def _image(part: dict[str, Any], where: str) -> ImageData:
    """The model has its own way to see details: what is said of them is ignored."""
    if part.get("file_id") is not None:
        raise unsupported(f"{where}.file_id", "Send the image itself, as a data: URL.")
    return image_in_url(part.get("image_url"), f"{where}.image_url")

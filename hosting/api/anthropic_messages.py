"""A conversation in Anthropic's blocks, as the chat messages that mean the same. In order.

    system (text | blocks)          one system message, without Claude Code's billing line
    user  [tool_result, text, image, ...]  tool messages and user messages, as they stand
    assistant [thinking, text, tool_use]   one assistant message
    system, in the middle           user text in <system-reminder>: hoisting it would move the
                                    whole prefix, and many templates refuse it there

Neighbours of one role are one message: templates want turns to alternate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hosting.actions.image_data import ImageData
from hosting.api.content import (
    Content,
    Part,
    content_of,
    image_in_base64,
    joined_contents,
    text_only,
)
from hosting.api.errors import ApiError, invalid, unsupported
from hosting.api.messages import text_at, without_billing
from hosting.api.sealing import unsealed

Message = dict[str, Any]
_NOT_READ = "Text and images are read here, not {kind}."
_BETWEEN = "\n\n"
# What only Anthropic's own servers make, and clients send back
_FOREIGN_BLOCKS = ("redacted_thinking", "server_tool_use", "container_upload", "mcp_tool_use")


def chat_messages(messages: Any, *, system: Any = None) -> list[Message]:
    """Raises ApiError or Refusal naming the block at fault."""
    if not isinstance(messages, list) or not messages:
        raise invalid("messages", "There must be at least one message.")
    said: list[Message] = []
    if text := _system_text(system):
        said.append({"role": "system", "content": text})
    for place, message in enumerate(messages):
        for one in _turn(message, f"messages.{place}", is_first=not said):
            _append(said, one)
    return said


def _append(said: list[Message], message: Message) -> None:
    if not said or message["role"] != said[-1]["role"] or message["role"] == "tool":
        said.append(message)
        return
    last = said[-1]
    for text in ("content", "reasoning_content"):
        if parts := [one[text] for one in (last, message) if one.get(text)]:
            last[text] = joined_contents(parts, _BETWEEN)
    if calls := [*last.get("tool_calls", ()), *message.get("tool_calls", ())]:
        last["tool_calls"] = calls


def _system_text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    texts = (without_billing(_text_block(*one)) for one in _blocks(system, "system"))
    return _BETWEEN.join(filter(None, texts))


def _turn(message: Any, where: str, *, is_first: bool) -> Iterator[Message]:
    if not isinstance(message, dict):
        raise invalid(where, "A message must be an object with a role and a content.")
    content = message.get("content")
    match message.get("role"):
        case "user":
            yield from _user(content, f"{where}.content")
        case "assistant":
            yield _assistant(content, f"{where}.content")
        case "system":
            yield _instruction(_text(content, f"{where}.content"), is_first=is_first)
        case _:
            raise invalid(f"{where}.role", "The role must be user, assistant or system.")


def _instruction(text: str, *, is_first: bool) -> Message:
    if is_first:
        return {"role": "system", "content": text}
    return {"role": "user", "content": f"<system-reminder>\n{text}\n</system-reminder>"}


def _user(content: Any, where: str) -> Iterator[Message]:
    parts: list[Part] = []
    for block, at in _blocks(content, where):
        if block.get("type") != "tool_result":
            parts.append(_part(block, at))
            continue
        if parts:
            yield _user_message(parts)
            parts = []
        yield _tool_result(block, at)
    if parts:
        yield _user_message(parts)


def _user_message(parts: list[Part]) -> Message:
    return {"role": "user", "content": content_of(parts, _BETWEEN)}


def _tool_result(block: Message, where: str) -> Message:
    content = _joined(block.get("content") or "", f"{where}.content")
    if block.get("is_error") and not content:
        content = "The tool failed."
    return {
        "role": "tool",
        "tool_call_id": text_at(block.get("tool_use_id"), f"{where}.tool_use_id"),
        "content": content,
    }


def _assistant(content: Any, where: str) -> Message:
    texts, thoughts, calls = [], [], []
    for block, at in _blocks(content, where):
        match block.get("type"):
            case "text":
                texts.append(_text_block(block, at))
            case "thinking":
                thoughts.append(_thought(block, at))
            case "tool_use":
                calls.append(_tool_call(block, at))
            case kind if kind in _FOREIGN_BLOCKS or str(kind).endswith("_tool_result"):
                continue
            case _:
                raise invalid(f"{at}.type", "The type of this block is not known.")
    message: Message = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _thought(block: Message, where: str) -> str:
    """What was thought, else the seal of it."""
    signature = block.get("signature")
    sealed = unsealed(signature) if isinstance(signature, str) else ""
    return text_at(block.get("thinking"), f"{where}.thinking") or sealed


def _tool_call(block: Message, where: str) -> Message:
    arguments = block.get("input", {})
    if not isinstance(arguments, dict):
        raise invalid(f"{where}.input", "This must be an object.")
    function = {
        "name": text_at(block.get("name"), f"{where}.name"),
        # As models write it, so that the prefix is the one that was computed
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }
    return {
        "id": text_at(block.get("id"), f"{where}.id"),
        "type": "function",
        "function": function,
    }


def _joined(content: Any, where: str) -> Content:
    return content_of((_part(block, at) for block, at in _blocks(content, where)), _BETWEEN)


def _text(content: Any, where: str) -> str:
    """Blocks that can only be text, as one."""
    return text_only(_joined(content, where))


def _part(block: Message, where: str) -> Part:
    match block.get("type"):
        case "text":
            return _text_block(block, where)
        case "document":
            return _document_text(block, where)
        case "search_result":
            return _text(block.get("content") or "", f"{where}.content")
        case "image":
            return _image(block.get("source"), f"{where}.source")
        case "audio" | "file" | "container_upload" as kind:
            raise _not_read(where, kind)
        case "tool_reference":
            return text_at(block.get("tool_name"), f"{where}.tool_name")
    raise invalid(f"{where}.type", "The type of this block is not known.")


def _image(source: Any, where: str) -> ImageData:
    """What it is its bytes say, whatever `media_type` does."""
    if not isinstance(source, dict):
        raise invalid(where, "An image needs a source.")
    match source.get("type"):
        case "base64":
            return image_in_base64(source.get("data"), f"{where}.data")
        case "url" | "file" as kind:
            raise unsupported(f"{where}.{kind}", "Images are not fetched: send them in base64.")
    raise invalid(f"{where}.type", "The source of an image must be base64.")


def _document_text(block: Message, where: str) -> str:
    source = block.get("source")
    if not isinstance(source, dict):
        raise invalid(f"{where}.source", "A document needs a source.")
    match source.get("type"):
        case "text":
            return text_at(source.get("data"), f"{where}.source.data")
        case "content":
            return _text(source.get("content"), f"{where}.source.content")
    raise _not_read(f"{where}.source", "this kind of document")


def _not_read(where: str, kind: str) -> ApiError:
    return unsupported(where, _NOT_READ.format(kind=kind))


def _blocks(content: Any, where: str) -> Iterator[tuple[Message, str]]:
    """Each block with its address; plain text is one block of it."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}, where
        return
    if not isinstance(content, list):
        raise invalid(where, "This must be text or a list of blocks.")
    for place, block in enumerate(content):
        if not isinstance(block, dict):
            raise invalid(f"{where}.{place}", "A block must be an object.")
        yield block, f"{where}.{place}"


def _text_block(block: Message, where: str) -> str:
    if block.get("type") != "text":
        raise invalid(f"{where}.type", "This must be a text block.")
    return text_at(block.get("text"), f"{where}.text")

"""A conversation as a file to keep: JSON with all branches, Markdown of the shown one.

Images are not in it: it says where each is. `site` is where people reach this server."""

from __future__ import annotations

from typing import Any

from hosting.actions.conversations import branch_to, messages_of
from hosting.models import Conversation, Message

_WHO = {
    Message.Role.USER: "You",
    Message.Role.ASSISTANT: "Answer",
    Message.Role.TOOL: "Tools",
}


def as_json(conversation: Conversation, *, site: str) -> dict[str, Any]:
    return {
        "title": conversation.title,
        "system_prompt": conversation.system_prompt,
        "created_at": conversation.created_at.isoformat(),
        "messages": [_message(message, site) for message in messages_of(conversation)],
    }


def as_markdown(conversation: Conversation, *, site: str) -> str:
    leaf = conversation.active_leaf
    parts = [f"# {conversation}"]
    if conversation.system_prompt:
        parts.append(f"> {conversation.system_prompt}")
    for message in branch_to(leaf) if leaf else []:
        parts.append(f"## {_WHO[Message.Role(message.role)]}\n\n{_told(message, site)}")
    return "\n\n".join(parts) + "\n"


def _told(message: Message, site: str) -> str:
    if message.role != Message.Role.TOOL:
        shown = (f"![Image]({image['address']})" for image in _images(message, site))
        return "\n\n".join(filter(None, [*shown, message.content]))
    calls = (
        f"{call.tool_name or call.called_name}, {call.state}:\n\n"
        f"{_indented(call.arguments)}\n\n{_indented(call.result)}"
        for call in message.calls.all()
    )
    return "\n\n".join(filter(None, [*calls, message.content]))


def _indented(text: str) -> str:
    """As it is: nothing in it counts as Markdown."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def _calls(message: Message) -> list[dict[str, Any]]:
    if message.role != Message.Role.TOOL:
        return []
    names = ("call_id", "server_name", "tool_name", "arguments", "state", "result")
    return [{name: getattr(call, name) for name in names} for call in message.calls.all()]


def _images(message: Message, site: str) -> list[dict[str, Any]]:
    if message.role != Message.Role.USER:
        return []
    return [
        {
            "id": str(one.image.pk),
            "media_type": one.image.media_type,
            "bytes": one.image.num_bytes,
            "sha256": one.image.digest,
            "address": f"{site}chat/images/{one.image.pk}",
        }
        for one in message.message_images.all()
    ]


def _message(message: Message, site: str) -> dict[str, Any]:
    return {
        "id": str(message.pk),
        "parent": str(message.parent_id) if message.parent_id else None,
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": message.tool_calls,
        "images": _images(message, site),
        "calls": _calls(message),
        "created_at": message.created_at.isoformat(),
    }

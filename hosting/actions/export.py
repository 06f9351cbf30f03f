"""A conversation as a file to keep: JSON with all branches, Markdown of the shown one."""

from __future__ import annotations

from typing import Any

from hosting.actions.conversations import branch_to, messages_of
from hosting.models import Conversation, Message


def as_json(conversation: Conversation) -> dict[str, Any]:
    return {
        "title": conversation.title,
        "system_prompt": conversation.system_prompt,
        "created_at": conversation.created_at.isoformat(),
        "messages": [_message(message) for message in messages_of(conversation)],
    }


def as_markdown(conversation: Conversation) -> str:
    leaf = conversation.active_leaf
    parts = [f"# {conversation}"]
    if conversation.system_prompt:
        parts.append(f"> {conversation.system_prompt}")
    for message in branch_to(leaf) if leaf else []:
        who = "You" if message.role == Message.Role.USER else "Answer"
        parts.append(f"## {who}\n\n{message.content}")
    return "\n\n".join(parts) + "\n"


def _message(message: Message) -> dict[str, Any]:
    return {
        "id": str(message.pk),
        "parent": str(message.parent_id) if message.parent_id else None,
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": message.tool_calls,
        "created_at": message.created_at.isoformat(),
    }

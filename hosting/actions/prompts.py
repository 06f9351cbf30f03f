"""A branch of a conversation as the messages that a model is told."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any

from hosting.models import Conversation, Message, ToolCall


def prompt_of(conversation: Conversation, branch: list[Message]) -> tuple[dict[str, Any], ...]:
    """The system prompt and the branch. Answers that never came are left out."""
    system = conversation.system_prompt.strip()
    calls = _calls_of(branch)
    turns = [turn for message in branch for turn in _turns(message, calls)]
    return ({"role": "system", "content": system}, *turns) if system else tuple(turns)


def _calls_of(branch: list[Message]) -> dict[uuid.UUID, list[ToolCall]]:
    found: dict[uuid.UUID, list[ToolCall]] = defaultdict(list)
    ids = [message.pk for message in branch if message.role == Message.Role.TOOL]
    for call in ToolCall.objects.filter(message__in=ids) if ids else ():
        found[call.message_id].append(call)
    return found


def _turns(message: Message, calls: dict[uuid.UUID, list[ToolCall]]) -> list[dict[str, Any]]:
    if message.role == Message.Role.USER:
        return [{"role": "user", "content": message.content}]
    if message.role == Message.Role.TOOL:
        return [
            {"role": "tool", "tool_call_id": call.call_id, "content": call.result}
            for call in calls[message.pk]
        ]
    if not (message.content or message.tool_calls):
        return []
    turn: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = message.tool_calls
    return [turn]

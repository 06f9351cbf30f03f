"""A branch of a conversation as the messages that a model is told."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any

from hosting.actions.image_data import ImageData
from hosting.actions.images import images_of
from hosting.models import Conversation, Message, ToolCall


def prompt_of(
    conversation: Conversation, branch: list[Message], *, with_tools: bool
) -> tuple[dict[str, Any], ...]:
    """The system prompt and the branch. Answers that never came are left out, and calls that have
    no result: cut, or passed by. A model without tools is told of no calls. Raises Refusal."""
    system = conversation.system_prompt.strip()
    calls = _calls_of(branch) if with_tools else {}
    images = images_of(one for one in branch if one.role == Message.Role.USER)
    turns: list[dict[str, Any]] = []
    for message in branch:
        if message.role == Message.Role.USER:
            turns.append(_asked(message, images.get(message.pk, [])))
        else:
            _add(turns, message, calls)
    return ({"role": "system", "content": system}, *turns) if system else tuple(turns)


def _calls_of(branch: list[Message]) -> dict[uuid.UUID, list[ToolCall]]:
    """By the answer that called."""
    answers = {
        message.pk: message.parent_id
        for message in branch
        if message.role == Message.Role.TOOL and message.parent_id
    }
    found: dict[uuid.UUID, list[ToolCall]] = defaultdict(list)
    for call in ToolCall.objects.filter(message__in=answers) if answers else ():
        found[answers[call.message_id]].append(call)
    return found


def _asked(message: Message, images: list[ImageData]) -> dict[str, Any]:
    """Images first, as models were taught."""
    if not images:
        return {"role": "user", "content": message.content}
    text = [{"type": "text", "text": message.content}] if message.content else []
    return {"role": "user", "content": [*images, *text]}


def _add(
    turns: list[dict[str, Any]], message: Message, calls: dict[uuid.UUID, list[ToolCall]]
) -> None:
    if message.role != Message.Role.ASSISTANT:
        return
    told = calls.get(message.pk, [])
    if not (message.content or told):
        return
    turn: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if told:
        turn["tool_calls"] = message.tool_calls
    if turns and turns[-1]["role"] == "assistant":  # what was between them is not told
        before = turns.pop()
        content = "\n\n".join(filter(None, (before["content"], message.content)))
        turn = {**before, **turn, "content": content}
    turns.append(turn)
    for call in told:
        turns.append({"role": "tool", "tool_call_id": call.call_id, "content": call.result})

"""What gpt-oss' chat templates want otherwise than others': thoughts under a name of their own and
never beside words of a message that calls, an effort for every wish.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.intake.messages import Message

ANSWER_START = "<|channel|>final<|message|>"
_EFFORTS = {"xhigh": "high", "max": "high"}  # it has learned low, medium and high
_LEAST_EFFORT = "low"


def is_template(source: str) -> bool:
    return "<|channel|>analysis" in source and "thinking" in source


def in_its_form(messages: list[Message]) -> list[Message]:
    return [_with_thinking(message) for message in messages]


def efforts(options: Mapping[str, Any]) -> dict[str, Any]:
    effort = _LEAST_EFFORT if _is_not_to_think(options) else options.get("reasoning_effort")
    known = _EFFORTS.get(effort, effort) if isinstance(effort, str) else effort
    return {**options, "reasoning_effort": known} if known is not None else dict(options)


def prompt_end(options: Mapping[str, Any], tools: list[Message]) -> str:
    """Its template does not know how not to think: the answer is begun for it. Where it may have to
    call a tool it thinks little instead."""
    return ANSWER_START if _is_not_to_think(options) and not tools else ""


def _is_not_to_think(options: Mapping[str, Any]) -> bool:
    return options.get("enable_thinking") is False and options.get("reasoning_effort") is None


def _with_thinking(message: Message) -> Message:
    """Words before a call stand behind the thoughts then: the template takes one of the two, and
    writes either as thoughts."""
    thoughts = message.get("reasoning_content")
    if not thoughts:
        return message
    if message["content"] and "tool_calls" in message:
        return {**message, "thinking": f"{thoughts}\n\n{message['content']}", "content": ""}
    return {**message, "thinking": thoughts}

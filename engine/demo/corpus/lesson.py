"""What one lesson is: a conversation with its tools and reasoning. It knows no tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

Message = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A conversation as the chat template takes it. Every assistant turn is something to learn."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One question with its answer, which can stand anywhere in a conversation."""

    question: str
    answer: str
    reasoning: str = ""

    @property
    def messages(self) -> tuple[Message, Message]:
        answer: Message = {"role": "assistant", "content": self.answer}
        if self.reasoning:
            answer["reasoning_content"] = self.reasoning
        return {"role": "user", "content": self.question}, answer


ExchangeSkill = Callable[[Random], Exchange]
LessonSkill = Callable[[Random], Lesson]


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def system(content: str) -> Message:
    return {"role": "system", "content": content}

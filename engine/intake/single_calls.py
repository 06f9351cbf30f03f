"""Conversations for templates that take one tool call a message: they refuse several, as Llama 3's,
or show the first alone, as gpt-oss'.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from engine.intake.messages import Message


def one_call_each(messages: list[Message]) -> list[Message]:
    """Each call has a message of its own, with its results behind it."""
    return list(_parts(messages))


def _parts(messages: list[Message]) -> Iterator[Message]:
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if len(message.get("tool_calls", ())) < 2:
            yield message
            continue
        results = list(takewhile(lambda one: one["role"] == "tool", messages[place:]))
        place += len(results)
        yield from _parted(message, results)


def _parted(message: Message, results: list[Message]) -> Iterator[Message]:
    first, *others = message["tool_calls"]
    silent = {"role": message["role"], "content": ""}
    for one in (
        {**message, "tool_calls": [first]},
        *({**silent, "tool_calls": [c]} for c in others),
    ):
        call_id = one["tool_calls"][0].get("id")
        yield one
        yield from (result for result in results if _answers(result, call_id))
    call_ids = [call.get("id") for call in message["tool_calls"]]
    yield from (one for one in results if not any(_answers(one, each) for each in call_ids))


def _answers(result: Message, call_id: str | None) -> bool:
    return call_id is not None and result.get("tool_call_id") == call_id

"""What of calls is in the prompt of an answer: none without its result, none for who knows none."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from engine import wire
from hosting.actions.settling import settle_generation
from hosting.models import HostedModel
from tests.engine.transport.rig import emit
from tests.hosting.scripted_engine import finished
from tests.hosting.tool_servers.tools_in_chat import ToolChat, calling, command_of, delta


def told(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in command_of(answer).messages]


def test_a_model_without_tools_is_told_the_answers_alone(chat: ToolChat) -> None:
    """Its template has no place for calls, and many refuse what does not take turns."""
    answer = chat.say()
    chat.answer(answer, delta("Let me see."), calling("add", {"a": 2, "b": 3}))
    chat.decide(chat.call)
    chat.run()
    last = chat.messages[-1]
    chat.answer(last, delta("It is 5."))
    HostedModel.objects.update(supports_tools=False)
    written = chat.say("And?", parent=last["id"])
    assert told(written) == [
        ("user", "What is 2 + 3?"),
        ("assistant", "Let me see.\n\nIt is 5."),
        ("user", "And?"),
    ]
    assert all("tool_calls" not in one for one in command_of(written).messages)


@pytest.mark.parametrize("reason", [wire.FinishReason.CANCELLED, wire.FinishReason.LENGTH])
def test_a_call_that_was_cut_is_not_told(chat: ToolChat, reason: wire.FinishReason) -> None:
    answer = chat.say()
    generation = answer["generation"]["id"]
    chat.rig.admit_all()
    engine = chat.rig.engine()
    engine.pull({"demo": 8})
    cut = calling("add", '{"a": 2, ')
    emit(engine, generation, delta("Let me see."), cut, finished(reason))
    assert settle_generation(str(uuid.UUID(generation)))
    written = chat.say("And?", parent=answer["id"])
    assert told(written)[1] == ("assistant", "Let me see.")
    assert all("tool_calls" not in one for one in command_of(written).messages)


def test_half_a_character_of_a_model_stops_no_round(chat: ToolChat) -> None:
    """The escapes that a model writes may end in the middle of an emoji."""
    chat.answer(chat.say(), calling("add\ud83d", '{"a": "\ud83d"}'))
    assert chat.call["tool"] == "add?" and chat.call["arguments"] == '{"a": "?"}'
    assert chat.roles[-1] == "assistant"

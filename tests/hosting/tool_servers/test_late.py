"""Calls whose runner is late, and what their person has changed meanwhile."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from hosting.actions import tool_rounds, tool_running
from hosting.actions.tool_running import look_after_calls, run_call
from hosting.models import Conversation, Generation, Message, ToolCall
from tests.hosting.tool_servers.tools_in_chat import NEVER, ToolChat, calling, command_of
from tests.tool_server import RunningServer


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Does something, once, while the host of the next call is looked up."""

    def arrange(does: Callable[[], Any]) -> None:
        find = tool_running.find_place

        def slow(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(tool_running, "find_place", find)
            does()
            return find(*args, **options)

        monkeypatch.setattr(tool_running, "find_place", slow)

    return arrange


def _lose() -> None:
    ToolCall.objects.update(lost_at=timezone.now())
    look_after_calls()


def test_what_its_person_changes_while_a_tool_runs_stays_changed(
    chat: ToolChat, meanwhile: Any
) -> None:
    chat.decide(chat.ask_and_call())
    own = Conversation.objects.filter(pk=chat.conversation)
    meanwhile(lambda: own.update(model_name="other", system_prompt="Be brief."))
    chat.run()
    assert own.get().model_name == "other"
    assert command_of(chat.messages[-1]).messages[0]["content"] == "Be brief."


@pytest.mark.parametrize("does", ["lose", "stop"])
def test_who_is_late_sends_nothing_that_was_given_up(
    chat: ToolChat, running: RunningServer, meanwhile: Any, does: str
) -> None:
    chat.decide(chat.ask_and_call())
    num_before = len(running.calls)

    def give_up() -> None:
        if does == "stop":
            chat.post(f"/chat/messages/{chat.held['id']}/stop", {})
            return
        _lose()
        chat.decide(chat.call, "no")

    meanwhile(give_up)
    chat.run()
    assert running.calls[num_before:] == []
    assert chat.call["state"] == ("stopped" if does == "stop" else "declined")


def test_who_is_late_does_not_run_what_is_tried_again(
    chat: ToolChat, running: RunningServer, meanwhile: Any
) -> None:
    chat.decide(chat.ask_and_call())
    num_before = len(running.calls)

    def try_again() -> None:
        _lose()
        chat.decide(chat.call)
        ToolCall.objects.update(
            state=ToolCall.State.RUNNING, lost_at=timezone.now() + tool_running._LOST_AFTER
        )  # by another worker

    meanwhile(try_again)
    chat.run()
    assert running.calls[num_before:] == []
    assert chat.call["state"] == "running"


def test_one_person_does_not_take_all_the_room(
    chat: ToolChat, running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_running, "_MOST_OF_ONE", 1)
    two = (calling("add", {"a": 1, "b": 1}), calling("add", {"a": 2, "b": 2}, index=1))
    chat.answer(chat.say(), *two)
    first, second = chat.calls
    for call in (first, second):
        chat.decide(call)
    one = ToolCall.objects.filter(pk=first["id"])
    one.update(state=ToolCall.State.RUNNING, lost_at=timezone.now() + tool_running._LOST_AFTER)
    num_before = len(running.calls)
    chat.run()
    assert running.calls[num_before:] == [] and chat.calls[1]["state"] == "allowed"
    one.update(state=ToolCall.State.DONE)
    chat.run()
    assert running.calls[num_before:] == ["add 2 2"]


def test_a_worker_that_ends_begins_no_call(chat: ToolChat, running: RunningServer) -> None:
    chat.decide(chat.ask_and_call())
    num_before = len(running.calls)
    stop = threading.Event()
    stop.set()
    run_call(uuid.UUID(chat.call["id"]), stop)
    assert running.calls[num_before:] == []
    assert chat.call["state"] == "allowed"
    run_call(uuid.UUID(chat.call["id"]), NEVER)
    assert running.calls[num_before:] == ["add 2 3"]


def test_a_round_that_cannot_begin_stops_no_other(
    chat: ToolChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        chat.conversation = ""
        chat.ask_and_call()
    Message.objects.filter(role=Message.Role.TOOL).delete()
    Generation.objects.update(finished_at=timezone.now() - datetime.timedelta(minutes=1))
    begin, asked = tool_rounds.begin_round, list[uuid.UUID]()

    def begin_second(pk: uuid.UUID) -> None:
        asked.append(pk)
        if len(asked) == 1:
            raise ValueError
        begin(pk)

    monkeypatch.setattr(tool_rounds, "begin_round", begin_second)
    tool_rounds.begin_missed_rounds()
    assert len(asked) == 2 and ToolCall.objects.count() == 1

"""Who may have which tools: asked again at each step, for it may change at any time."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from accounts.models import User
from hosting.models import Message, ToolServer
from tests.hosting.tool_servers.tools_in_chat import ToolChat, calling, delta
from tests.tool_server import RunningServer


def _disable(chat: ToolChat) -> None:
    ToolServer.objects.update(is_enabled=False)


def _forbid_tool(chat: ToolChat) -> None:
    ToolServer.objects.update(allowed_tools=["fail"])


def _give_to_group(chat: ToolChat) -> None:
    chat.server.allowed_groups.add(Group.objects.create(name="others"))
    ToolServer.objects.update(is_for_everybody=False)


def _switch_off(chat: ToolChat) -> None:
    path = f"/chat/conversations/{chat.conversation}"
    body = {"tool_servers": []}
    assert chat.page.patch(path, body, content_type="application/json").status_code == 200


TAKEN_AWAY = [_disable, _forbid_tool, _give_to_group, _switch_off]


@pytest.mark.parametrize("take_away", TAKEN_AWAY)
def test_what_is_taken_away_before_the_consent_cannot_be_allowed(
    chat: ToolChat, running: RunningServer, take_away: Any
) -> None:
    call, num_before = chat.ask_and_call(), len(running.calls)
    take_away(chat)
    path = f"/chat/tool-calls/{call['id']}/decide"
    assert chat.post(path, {"decision": "once"}, 403)["error"]["code"] == "not_allowed"
    chat.run()
    assert len(running.calls) == num_before and chat.call["state"] == "waiting"
    chat.decide(call, "no")
    assert chat.roles[-1] == "assistant"


@pytest.mark.parametrize("take_away", TAKEN_AWAY)
def test_what_is_taken_away_after_the_consent_is_not_run(
    chat: ToolChat, running: RunningServer, take_away: Any
) -> None:
    num_before = len(running.calls)
    chat.decide(chat.ask_and_call())
    take_away(chat)
    chat.run()
    assert len(running.calls) == num_before
    assert chat.call["state"] == "failed" and "Not run: " in chat.call["result"]


@pytest.mark.parametrize("take_away", [_disable, _give_to_group])
def test_a_server_that_is_not_there_for_a_person_is_not_switched_on(
    chat: ToolChat, take_away: Any
) -> None:
    take_away(chat)
    assert chat.page.get("/chat/tool-servers").json() == {"servers": []}
    body = {"content": "Hello", "tool_servers": [chat.server.pk]}
    refused = chat.post("/chat/messages", body, 400)
    assert refused["error"]["field"] == "tool_servers"
    assert not Message.objects.exists()


def test_a_stranger_reaches_nothing(chat: ToolChat, strangers_page: Client) -> None:
    call = chat.ask_and_call()
    held = chat.held["id"]
    for path, body in (
        (f"/chat/tool-calls/{call['id']}/decide", {"decision": "once"}),
        (f"/chat/messages/{held}/stop", {}),
        (f"/chat/messages/{held}/go-on", {}),
    ):
        assert strangers_page.post(path, body, content_type="application/json").status_code == 404
        assert Client().post(path, body, content_type="application/json").status_code == 401
    assert chat.call["state"] == "waiting"


def test_people_of_its_groups_have_a_server_and_nobody_else(
    chat: ToolChat, person: User, strangers_page: Client
) -> None:
    _give_to_group(chat)
    group = Group.objects.get()
    group.user_set.add(person)
    assert len(chat.page.get("/chat/tool-servers").json()["servers"]) == 1
    assert strangers_page.get("/chat/tool-servers").json() == {"servers": []}
    group.delete()  # opens it to nobody
    for page in (chat.page, strangers_page):
        assert page.get("/chat/tool-servers").json() == {"servers": []}


def test_who_switches_a_server_off_takes_back_what_was_allowed_in_the_conversation(
    chat: ToolChat,
) -> None:
    chat.decide(chat.ask_and_call(), "conversation")
    chat.run()
    path = f"/chat/conversations/{chat.conversation}"
    for servers in ([], [chat.server.pk]):
        chat.page.patch(path, {"tool_servers": servers}, content_type="application/json")
    answer = chat.messages[-1]
    chat.answer(answer, delta("It is 5."))
    chat.answer(chat.say(parent=answer["id"]), calling("add", {"a": 1, "b": 1}))
    assert [call["state"] for call in chat.calls] == ["done", "waiting"]

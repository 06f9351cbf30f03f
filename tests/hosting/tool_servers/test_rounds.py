"""Tools in a conversation: asked for, decided on, run once, and an answer that knows the result."""

from __future__ import annotations

import datetime
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Quota, User
from engine import wire
from hosting.actions import tool_rounds
from hosting.actions.tool_rounds import begin_missed_rounds, begin_round
from hosting.actions.tool_running import look_after_calls, run_call
from hosting.actions.turns import start_title
from hosting.models import Generation, HostedModel, Message, ToolCall, ToolServer
from tests.hosting.tool_servers.conftest import ALL
from tests.hosting.tool_servers.tools_in_chat import NEVER, ToolChat, calling, command_of, delta
from tests.tool_server import HUGE_CHARACTERS, RunningServer
from tests.waiting import wait_until


def test_a_model_is_offered_the_allowed_tools_and_no_others(chat: ToolChat) -> None:
    told = chat.page.get("/chat/tool-servers").json()["servers"]
    assert [(one["name"], [tool["name"] for tool in one["tools"]]) for one in told] == [
        ("Tests", ALL)
    ]
    tools = command_of(chat.say()).tools
    assert [tool["function"]["name"] for tool in tools] == ALL
    assert tools[0]["function"]["description"] == "Add two numbers"
    assert set(tools[0]["function"]["parameters"]["properties"]) == {"a", "b"}


def test_nothing_is_sent_before_the_person_agrees_and_then_the_answer_goes_on(
    chat: ToolChat, running: RunningServer
) -> None:
    num_before = len(running.calls)
    call = chat.ask_and_call()
    assert (call["server"], call["tool"], call["arguments"]) == ("Tests", "add", '{"a": 2, "b": 3}')
    assert call["state"] == "waiting"
    chat.run()
    look_after_calls()
    assert len(running.calls) == num_before
    assert chat.decide(call)["message"]["calls"][0]["state"] == "allowed"
    chat.run()
    assert running.calls[num_before:] == ["add 2 3"]
    assert (chat.call["state"], chat.call["result"]) == ("done", "5")
    assert chat.roles == ["user", "assistant", "tool", "assistant"]
    last = chat.messages[-1]
    *_, asked, result = command_of(last).messages
    assert asked["tool_calls"][0]["function"]["name"] == "add"
    assert result == {
        "role": "tool",
        "tool_call_id": asked["tool_calls"][0]["id"],
        "content": "5",
    }
    chat.answer(last, delta("It is 5."))
    assert chat.messages[-1]["content"] == "It is 5."
    told = chat.page.get(f"/chat/conversations/{chat.conversation}").json()["conversation"]
    assert told["active_leaf"] == last["id"]


def test_who_says_no_sends_nothing_and_the_model_knows(
    chat: ToolChat, running: RunningServer
) -> None:
    num_before = len(running.calls)
    chat.decide(chat.ask_and_call(), "no")
    chat.run()
    assert len(running.calls) == num_before
    assert chat.call["state"] == "declined"
    said = command_of(chat.messages[-1]).messages[-1]
    assert said["content"] == "The person did not allow this call. It was not run."


def test_who_agrees_for_a_conversation_is_asked_once_in_it(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call(), "conversation")
    chat.run()
    chat.answer(chat.messages[-1], calling("add", {"a": 4, "b": 4}))
    assert [call["state"] for call in chat.calls] == ["done", "allowed"]
    chat.run()
    assert chat.calls[-1]["result"] == "8"
    chat.answer(chat.messages[-1], calling("fail", {}))
    assert chat.calls[-1]["state"] == "waiting"  # another tool
    chat.conversation = ""
    assert chat.ask_and_call()["state"] == "waiting"


def test_several_calls_are_each_decided_on_and_the_answer_waits_for_all(chat: ToolChat) -> None:
    two = (calling("add", {"a": 1, "b": 1}), calling("add", {"a": 2, "b": 2}, index=1))
    chat.answer(chat.say(), *two)
    first, second = chat.calls
    chat.decide(first)
    chat.run()
    assert [call["state"] for call in chat.calls] == ["done", "waiting"]
    assert chat.roles[-1] == "tool"
    chat.decide(second, "no")
    results = [one["content"] for one in command_of(chat.messages[-1]).messages[-2:]]
    assert results == ["2", "The person did not allow this call. It was not run."]


def test_what_fails_is_told_to_the_model_and_to_the_person(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call("fail", {}))
    chat.run()
    assert chat.call["state"] == "failed"
    assert chat.call["result"] == "Error executing tool fail"
    assert command_of(chat.messages[-1]).messages[-1]["content"] == chat.call["result"]


def test_a_tool_that_does_not_answer_is_given_up(chat: ToolChat, running: RunningServer) -> None:
    ToolServer.objects.update(timeout_seconds=3)
    num_before = len(running.calls)
    chat.decide(chat.ask_and_call("hang", {}))
    chat.run()
    assert chat.call["state"] == "failed"
    has_run = "hang" in running.calls[num_before:]  # a busy machine may not have come to it
    rest = "It may have run all the same." if has_run else ""
    assert chat.call["result"].startswith("The tool server did not answer within 3 s. It ")
    assert rest in chat.call["result"]
    assert chat.roles[-1] == "assistant"


def test_a_server_that_is_away_is_told(chat: ToolChat) -> None:
    ToolServer.objects.update(url="http://127.0.0.1:9/mcp")
    chat.decide(chat.ask_and_call())
    chat.run()
    assert chat.call["result"] == "The tool server refuses connections. It was not run."


def test_a_huge_result_is_cut(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call("huge", {}))
    chat.run()
    result = chat.call["result"]
    assert result.startswith("xxx") and len(result) < 33_000
    assert result.endswith(f"[cut here: {HUGE_CHARACTERS - 32_000:,} more characters]")


def test_a_hostile_result_is_text(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call("hostile", {}))
    chat.run()
    result = chat.call["result"]
    assert result.startswith("<script>") and "\x00" not in result
    assert chat.call["state"] == "done"


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("unknown", {}, "there is no tool of this name"),
        ("add", "[1, 2]", "the arguments are not a JSON object"),
        ("add", "{", "the arguments are not a JSON object"),
        ("add", '{"a": NaN, "b": 1e999}', "the arguments are not a JSON object"),
        ("add", "[" * 100_000, "the arguments are not a JSON object"),
    ],
)
def test_what_cannot_be_called_asks_nobody_and_the_model_is_told(
    chat: ToolChat, name: str, arguments: Any, fault: str
) -> None:
    assert fault in chat.ask_and_call(name, arguments)["result"]
    assert chat.call["state"] == "failed"
    assert fault in command_of(chat.messages[-1]).messages[-1]["content"]


def test_a_tool_that_only_the_server_has_cannot_be_called(
    chat: ToolChat, running: RunningServer
) -> None:
    num_before = len(running.calls)
    assert chat.ask_and_call("get_weather", {"city": "Paris"})["state"] == "failed"
    chat.run()
    assert len(running.calls) == num_before


@pytest.mark.parametrize("body", [{}, {"decision": "yes"}, {"decision": 1}, [], "x"])
def test_a_decision_is_one_of_three(chat: ToolChat, body: Any) -> None:
    call = chat.ask_and_call()
    path = f"/chat/tool-calls/{call['id']}/decide"
    assert chat.page.post(path, body, content_type="application/json").status_code == 400


def test_a_call_is_decided_once_in_whichever_tab(chat: ToolChat, running: RunningServer) -> None:
    call, num_before = chat.ask_and_call(), len(running.calls)
    chat.decide(call)
    path = f"/chat/tool-calls/{call['id']}/decide"
    for decision in ("once", "no"):
        assert chat.post(path, {"decision": decision}, 409)["error"]["code"] == "already_decided"
    chat.run()
    assert running.calls[num_before:] == ["add 2 3"]


def test_several_workers_run_a_call_once(chat: ToolChat, running: RunningServer) -> None:
    call, num_before = chat.ask_and_call(), len(running.calls)
    chat.decide(call)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: run_call(uuid.UUID(call["id"]), NEVER), range(4)))
    assert running.calls[num_before:] == ["add 2 3"]
    assert chat.roles == ["user", "assistant", "tool", "assistant"]


def test_an_end_that_is_told_several_times_begins_one_round(chat: ToolChat) -> None:
    answer = chat.say()
    chat.answer(answer, calling("add", {"a": 1, "b": 1}))
    begin_round(uuid.UUID(answer["id"]))
    assert len(chat.calls) == 1


def test_an_end_that_nobody_was_told_is_found(chat: ToolChat) -> None:
    answer = chat.say()
    chat.answer(answer, calling("add", {"a": 1, "b": 1}))
    Message.objects.filter(role=Message.Role.TOOL).delete()
    Generation.objects.update(finished_at=timezone.now() - datetime.timedelta(minutes=1))
    begin_missed_rounds()
    assert chat.call["state"] == "waiting"


def test_who_died_while_a_call_ran_leaves_a_question(
    chat: ToolChat, running: RunningServer
) -> None:
    call, num_before = chat.ask_and_call(), len(running.calls)
    chat.decide(call)
    ToolCall.objects.update(
        state=ToolCall.State.RUNNING, lost_at=timezone.now() - datetime.timedelta(seconds=1)
    )
    chat.run()
    look_after_calls()
    assert chat.call["state"] == "lost"
    chat.run()
    assert len(running.calls) == num_before  # nobody runs it twice by themselves
    chat.decide(chat.call)
    chat.run()
    assert running.calls[num_before:] == ["add 2 3"] and chat.call["result"] == "5"


def test_a_lost_call_need_not_be_tried_again(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call())
    ToolCall.objects.update(state=ToolCall.State.LOST)
    chat.decide(chat.call, "no")
    assert "may have run" in command_of(chat.messages[-1]).messages[-1]["content"]


def test_a_worker_that_is_told_to_end_leaves_a_question(
    chat: ToolChat, running: RunningServer
) -> None:
    chat.decide(chat.ask_and_call("hang", {}))
    stop = threading.Event()
    num_before = len(running.calls)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(run_call, uuid.UUID(chat.call["id"]), stop)
        wait_until(lambda: len(running.calls) > num_before)
        stop.set()
    assert chat.call["state"] == "lost"


def test_stop_gives_up_what_runs_and_begins_no_answer(
    chat: ToolChat, running: RunningServer
) -> None:
    chat.decide(chat.ask_and_call("hang", {}))
    num_before = len(running.calls)
    with ThreadPoolExecutor(1) as threads:
        runs = threads.submit(run_call, uuid.UUID(chat.call["id"]), NEVER)
        wait_until(lambda: len(running.calls) > num_before)
        chat.post(f"/chat/messages/{chat.held['id']}/stop", {})
        runs.result(timeout=10)
    assert chat.call["state"] == "stopped"
    assert chat.roles == ["user", "assistant", "tool"]


def test_after_a_stop_one_may_write_on_or_have_it_answered(chat: ToolChat) -> None:
    chat.ask_and_call()
    held = chat.held["id"]
    early = {"content": "And?", "conversation": chat.conversation, "parent": held}
    assert chat.post("/chat/messages", early, 409)["error"]["code"] == "still_generating"
    chat.post(f"/chat/messages/{held}/stop", {})
    answers = [chat.post(f"/chat/messages/{held}/go-on", {})["answer"]["id"] for _ in range(2)]
    assert answers[0] == answers[1]
    written = chat.say("And?", parent=held)
    roles = [one["role"] for one in command_of(written).messages]
    assert roles == ["user", "assistant", "tool", "user"]


def test_rounds_are_bounded_and_it_is_said(chat: ToolChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_rounds, "MAX_ROUNDS", 2)
    chat.decide(chat.ask_and_call(), "conversation")
    chat.run()
    chat.answer(chat.messages[-1], calling("add", {"a": 1, "b": 1}))
    chat.run()
    chat.answer(chat.messages[-1], calling("add", {"a": 1, "b": 1}))
    assert chat.roles[-1] == "tool"
    assert chat.calls[-1]["state"] == "declined"
    assert "rounds of tools follow one message" in chat.held["content"]
    written = chat.say("Go on", parent=chat.held["id"])
    chat.answer(written, calling("add", {"a": 1, "b": 1}))
    assert chat.calls[-1]["state"] == "allowed"


def test_a_limit_that_refuses_the_next_answer_is_told_and_it_can_be_asked_for_again(
    chat: ToolChat, person: User
) -> None:
    call = chat.ask_and_call()
    quota = Quota.objects.create(user=person, requests_per_minute=1)
    chat.decide(call)
    chat.run()
    assert chat.call["result"] == "5"
    assert chat.roles[-1] == "tool"
    assert chat.held["content"].startswith("There is no answer to this yet: ")
    quota.delete()
    chat.post(f"/chat/messages/{chat.held['id']}/go-on", {})
    assert chat.roles[-1] == "assistant" and chat.held["content"] == ""


def test_options_of_the_person_hold_for_the_answer_after_the_calls(chat: ToolChat) -> None:
    options = {"temperature": 0, "seed": 7, "max_tokens": 99, "enable_thinking": False}
    chat.answer(chat.say(options=options), calling("add", {"a": 1, "b": 1}))
    chat.decide(chat.call)
    chat.run()
    command = command_of(chat.messages[-1])
    assert (command.sampling.temperature, command.sampling.seed) == (0, 7)
    assert (command.max_tokens, command.template_options) == (99, {"enable_thinking": False})


def test_a_model_without_tools_is_offered_none(chat: ToolChat) -> None:
    HostedModel.objects.update(supports_tools=False)
    assert command_of(chat.say()).tools == ()


def test_branches_keep_their_own_calls(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call())
    chat.run()
    first = chat.messages[-1]
    chat.answer(first, delta("It is 5."))
    again = chat.post(f"/chat/messages/{first['id']}/regenerate", {})["answer"]
    assert again["parent"] == first["parent"] == chat.held["id"]
    assert [one["role"] for one in command_of(again).messages] == ["user", "assistant", "tool"]


def test_a_deleted_server_leaves_what_it_said(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call())
    chat.run()
    chat.server.delete()
    assert (chat.call["server"], chat.call["result"]) == ("Tests", "5")


def test_no_connection_to_the_database_is_held_while_a_tool_runs(
    chat: ToolChat, running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hosting.actions import tool_running

    held: list[bool] = []
    send = tool_running._send
    monkeypatch.setattr(
        tool_running,
        "_send",
        lambda *args: (held.append(connection.connection is not None), send(*args))[1],
    )
    chat.decide(chat.ask_and_call())
    chat.run()
    assert held == [False]


def test_the_token_is_stored_sealed(chat: ToolChat) -> None:
    stored = ToolServer.objects.get().sealed_token
    assert stored and "secret-token" not in stored


def test_what_tools_said_is_in_the_export_and_counts_as_no_markdown(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call("hostile", {}))
    chat.run()
    path = f"/chat/conversations/{chat.conversation}/export?format="
    (held,) = (one for one in chat.page.get(f"{path}json").json()["messages"] if one["calls"])
    assert held["calls"][0]["result"] == chat.call["result"]
    text = chat.page.get(f"{path}markdown").content.decode()
    assert "## Tools\n\nhostile, done:\n\n    {}\n\n    <script>" in text


def test_a_title_is_of_the_question_and_the_words_that_answer_it(chat: ToolChat) -> None:
    chat.decide(chat.ask_and_call())
    chat.run()
    chat.answer(chat.messages[-1], delta("It is 5."))
    title = start_title(uuid.UUID(chat.conversation))
    assert title is not None
    asked = wire.decode(title.request).messages
    assert "What is 2 + 3?" in str(asked) and "It is 5." in str(asked)

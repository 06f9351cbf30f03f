"""Tools over the whole service: a model calls, its person agrees, the worker runs it, once.

The demo model really calls the tool and reads its result; the server is made with the official SDK.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.flow.asking import DEMO_MODEL
from tests.flow.chat_page import ChatPage
from tests.stack import Stack
from tests.tool_server import RunningServer, add_to_stack, running_tool_server

pytestmark = pytest.mark.stack
QUESTION = "What is the weather in Paris?"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_tool_server(tmp_path_factory.mktemp("tools")) as one:
        yield one


class Asked:
    """A conversation in which the model has called the tool, and waits."""

    def __init__(self, stack: Stack, running: RunningServer, page: ChatPage) -> None:
        self.stack, self.running, self.page = stack, running, page
        self.num_before = len(running.calls)
        (server,) = json.loads(page.read("/chat/tool-servers"))["servers"]
        body = {"content": QUESTION, "model": DEMO_MODEL, "tool_servers": [server["id"]]}
        body["options"] = {"temperature": 0, "max_tokens": 250}
        self.id = page.post("/chat/messages", body)["conversation"]["id"]
        self.wait_for("waiting")

    @property
    def messages(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.page.read(f"/chat/conversations/{self.id}"))[
            "messages"
        ]
        return told

    @property
    def call(self) -> dict[str, Any]:
        calls = [call for message in self.messages for call in message["calls"]]
        return calls[0] if calls else {"state": None}

    @property
    def ran(self) -> list[str]:
        return self.running.calls[self.num_before :]

    def decide(self, decision: str = "once") -> None:
        self.page.post(f"/chat/tool-calls/{self.call['id']}/decide", {"decision": decision})

    def wait_for(self, state: str, seconds: float = 60) -> None:
        self.stack.wait_until(lambda: self.call["state"] == state, state, seconds=seconds)

    def wait_for_answer(self) -> str:
        def is_there() -> bool:
            last = self.messages[-1]
            return last["role"] == "assistant" and last["generation"]["state"] == "done"

        self.stack.wait_until(is_there, "an answer after the call", seconds=60)
        return str(self.messages[-1]["content"])


@pytest.fixture
def page(stack: Stack, demo: str) -> Iterator[ChatPage]:
    with ChatPage(stack) as one:
        yield one


@pytest.fixture
def asked(stack: Stack, running: RunningServer, page: ChatPage) -> Asked:
    add_to_stack(stack, running, "get_weather")
    return Asked(stack, running, page)


def test_a_tool_is_called_with_consent_and_the_answer_knows_it(asked: Asked) -> None:
    assert (asked.call["tool"], json.loads(asked.call["arguments"])) == (
        "get_weather",
        {"city": "Paris"},
    )
    assert asked.ran == []
    asked.decide()
    answer = asked.wait_for_answer()
    assert "21" in answer and "sunny" in answer
    assert asked.ran == ["get_weather Paris"]


def test_a_worker_that_is_killed_while_a_tool_runs_leaves_a_question(
    asked: Asked, stack: Stack, running: RunningServer
) -> None:
    """The server holds its breath, so the call is under way when the worker dies: its own time
    must not be over before we have seen it, and no longer than we like to wait for its loss."""
    stack.manage("shell", "-c", TIMEOUT_10)
    running.process.send_signal(signal.SIGSTOP)
    try:
        asked.decide()
        asked.wait_for("running")
        stack.wait_restarted("celery", stack.kill("celery"))
        asked.wait_for("lost")
    finally:
        running.process.send_signal(signal.SIGCONT)
    asked.decide()
    assert "21" in asked.wait_for_answer()
    assert asked.ran[-1] == "get_weather Paris"


def test_what_was_allowed_while_there_was_no_worker_is_run_once(asked: Asked, stack: Stack) -> None:
    stack.wait_restarted("celery", stack.kill("celery"))
    old = stack.kill("celery", signal.SIGSTOP)
    asked.decide()
    stack.kill("celery")
    stack.wait_restarted("celery", old)
    assert "21" in asked.wait_for_answer()
    assert asked.ran == ["get_weather Paris"]


def test_redis_lost_after_the_consent_loses_no_call(asked: Asked, stack: Stack) -> None:
    old = stack.kill("celery", signal.SIGSTOP)
    asked.decide()
    stack.lose_redis()
    stack.kill("celery")
    stack.wait_restarted("celery", old)
    assert "21" in asked.wait_for_answer()
    assert asked.ran == ["get_weather Paris"]


TIMEOUT_10 = "from hosting.models import ToolServer; ToolServer.objects.update(timeout_seconds=10)"

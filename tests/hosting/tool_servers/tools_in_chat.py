"""A conversation with a tool server: what the page would ask, what the engine and the worker do."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

from django.test import Client

from engine import wire
from hosting.actions.settling import settle_generation
from hosting.actions.tool_rounds import begin_round
from hosting.actions.tool_running import run_call
from hosting.models import Generation, Message, ToolCall, ToolServer
from tests.engine.transport.rig import Rig, emit
from tests.hosting.scripted_engine import delta, finished

CALLS = wire.FinishReason.TOOL_CALLS
NEVER = threading.Event()


def calling(name: str, arguments: Any, index: int = 0) -> wire.Delta:
    part = wire.ToolCallPart(index=index, call_id=f"call-{uuid.uuid4().hex[:8]}", name=name)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return wire.Delta(channel=wire.Channel.TOOL_CALL, text=text, token_ids=(1,), tool_call=part)


class ToolChat:
    """One conversation of a person, whose model says what the test wants."""

    def __init__(self, page: Client, rig: Rig, server: ToolServer) -> None:
        self.page, self.rig, self.server = page, rig, server
        self.conversation = ""

    def say(self, text: str = "What is 2 + 3?", **fields: Any) -> dict[str, Any]:
        """The answer that begins."""
        on = {"tool_servers": [self.server.pk]} if not self.conversation else {}
        where = {"conversation": self.conversation} if self.conversation else {}
        told = self.post("/chat/messages", {"content": text, **on, **where, **fields})
        self.conversation = told["conversation"]["id"]
        answer: dict[str, Any] = told["answer"]
        return answer

    def answer(self, message: dict[str, Any], *events: wire.Event) -> None:
        """Let the engine answer so, and the worker keep what it calls."""
        is_calling = any(getattr(one, "tool_call", None) for one in events)
        generation = message["generation"]["id"]
        self.rig.admit_all()
        engine = self.rig.engine()
        engine.pull({"demo": 8})
        emit(engine, generation, *events, finished(CALLS) if is_calling else finished())
        assert settle_generation(generation)
        begin_round(uuid.UUID(message["id"]))

    def ask_and_call(self, name: str = "add", arguments: Any = None) -> dict[str, Any]:
        """The call that waits for its person."""
        arguments = {"a": 2, "b": 3} if arguments is None else arguments
        self.answer(self.say(), calling(name, arguments))
        return self.calls[-1]

    def decide(self, call: dict[str, Any], decision: str = "once") -> dict[str, Any]:
        return self.post(f"/chat/tool-calls/{call['id']}/decide", {"decision": decision})

    def run(self) -> None:
        """As the worker does with what was allowed."""
        for call in ToolCall.objects.filter(state=ToolCall.State.ALLOWED):
            run_call(call.pk, NEVER)

    @property
    def messages(self) -> list[dict[str, Any]]:
        told = self.page.get(f"/chat/conversations/{self.conversation}").json()
        found: list[dict[str, Any]] = told["messages"]
        return found

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for message in self.messages for call in message["calls"]]

    @property
    def call(self) -> dict[str, Any]:
        (one,) = self.calls
        return one

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def held(self) -> dict[str, Any]:
        """The message that holds the newest calls."""
        return [one for one in self.messages if one["role"] == Message.Role.TOOL][-1]

    def post(self, path: str, body: dict[str, Any], status: int = 0) -> dict[str, Any]:
        answer = self.page.post(path, body, content_type="application/json")
        told: dict[str, Any] = answer.json()
        assert answer.status_code == status if status else answer.status_code < 300, told
        return told


def command_of(message: dict[str, Any]) -> Any:
    return wire.decode(Generation.objects.get(pk=message["generation"]["id"]).request)


__all__ = ["NEVER", "ToolChat", "calling", "command_of", "delta"]

"""The wire's events in the dialect of OpenAI's responses. It knows no HTTP.

    created · queued* · in_progress* · items (responses_items.py) · completed | incomplete | failed

Sequence numbers have no gaps. Clients of this dialect do not count comments as signs of life, so
every few seconds one is an event.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from engine import wire
from hosting.api import sse
from hosting.api.dialect import History
from hosting.api.errors import ApiError
from hosting.api.openai_chat import position_logprobs
from hosting.api.responses_items import Call, CustomCall, FunctionCall, Item, Message, Reasoning
from hosting.api.responses_tools import ItemTool
from hosting.api.timings import timings_of

SILENT_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a response repeats of its request (`echo`), and how its items look."""

    key: str  # in every id
    created_at: int
    echo: dict[str, Any]
    tools: Mapping[str, ItemTool] = dataclasses.field(default_factory=dict)
    seals_reasoning: bool = False
    wants_logprobs: bool = False


class ResponsesReply:
    """One response, streamed or whole. Owner: one request."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._status = "in_progress"
        self._items: list[Item] = []
        self._open: Item | None = None
        self._open_call: int | None = None
        self._end: dict[str, Any] = {}
        self._num_sent = 0
        self._spoke_at = 0.0

    def lines(self, choice: int, event: wire.Event) -> str:
        match event:
            case wire.Accepted():
                return self._send(self._state("created")) + self._send(self._state("in_progress"))
            case wire.Queued():
                return self._queued(event)
            case wire.Started() | wire.Resumed():
                return self._begin()
            case wire.Delta():
                return self._begin() + self._send(*self._add(event))
            case wire.Finished():
                return self._send(*self._finish(event))
        return self._progress(event)

    def heartbeat(self) -> str:
        return self._send(self._state(self._status))

    def closing(self) -> str:
        return ""

    def error(self, error: ApiError) -> str:
        """The headers are gone, so the response itself says that it failed."""
        lines = self._send(*self._close_item("incomplete"))
        self._status = "failed"
        self._end = {"error": _failure(error)}
        return lines + self._send(self._state("failed"))

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        for event in histories[0]:
            if isinstance(event, wire.Delta):
                self._add(event)
            elif isinstance(event, wire.Finished):
                self._finish(event)
        return self._response()

    def _send(self, *events: dict[str, Any]) -> str:
        lines = []
        for event in events:
            lines.append(sse.named(event | {"sequence_number": self._num_sent}))
            self._num_sent += 1
            self._spoke_at = time.monotonic()
        return "".join(lines)

    def _state(self, name: str) -> dict[str, Any]:
        return {"type": f"response.{name}", "response": self._response()}

    def _queued(self, event: wire.Queued) -> str:
        """The standard has no field for the place: it is beside the response."""
        self._status = "queued"
        place = {"position": event.position, "wait_seconds": event.wait_seconds}
        return self._send(self._state("queued") | {"queue": place})

    def _begin(self) -> str:
        """Its turn has come, if it had to wait."""
        if self._status != "queued":
            return ""
        self._status = "in_progress"
        return self._send(self._state("in_progress"))

    def _progress(self, event: wire.Event) -> str:
        if time.monotonic() - self._spoke_at > SILENT_SECONDS:
            return self.heartbeat()
        told = sse.progress(event)
        return sse.comment(told) if told else ""

    def _add(self, delta: wire.Delta) -> list[dict[str, Any]]:
        logprobs = self._logprobs(delta)
        if not (delta.text or delta.tool_call or logprobs):
            return []
        events = []
        if not self._continues(delta):
            events += self._close_item("completed")
            self._open = self._new_item(delta)
            self._open_call = delta.tool_call.index if delta.tool_call else None
            self._items.append(self._open)
            events += self._open.opening()
        assert self._open is not None
        return events + self._open.feed(delta.text, logprobs)

    def _continues(self, delta: wire.Delta) -> bool:
        if delta.tool_call is not None:
            return self._open_call == delta.tool_call.index
        kind = Reasoning if delta.channel == wire.Channel.REASONING else Message
        return isinstance(self._open, kind)

    def _new_item(self, delta: wire.Delta) -> Item:
        index = len(self._items)
        key = f"{self._shape.key}{index:02d}"
        if delta.tool_call is not None:
            name = delta.tool_call.name or ""
            tool = self._shape.tools.get(name, ItemTool(name=name))
            call = Call(call_id=delta.tool_call.call_id, tool=tool)
            kind = CustomCall if tool.is_custom else FunctionCall
            return kind(key=key, output_index=index, call=call)
        if delta.channel == wire.Channel.REASONING:
            return Reasoning(key=key, output_index=index, is_sealed=self._shape.seals_reasoning)
        return Message(key=key, output_index=index)

    def _close_item(self, status: str) -> list[dict[str, Any]]:
        item, self._open, self._open_call = self._open, None, None
        return item.closing(status) if item is not None else []

    def _finish(self, finished: wire.Finished) -> list[dict[str, Any]]:
        is_cut = finished.reason == wire.FinishReason.LENGTH
        self._status = "incomplete" if is_cut else "completed"
        events = self._close_item(self._status)
        self._end = {"usage": usage_of(finished.usage)}
        if is_cut:
            self._end["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self._end["completed_at"] = int(time.time())
        return [*events, self._state(self._status) | {"timings": timings_of([finished])}]

    def _logprobs(self, delta: wire.Delta) -> list[dict[str, Any]]:
        if not self._shape.wants_logprobs or delta.channel != wire.Channel.CONTENT:
            return []
        return [position_logprobs(position) for position in delta.logprobs]

    def _response(self) -> dict[str, Any]:
        return {
            "id": f"resp_{self._shape.key}",
            "object": "response",
            "created_at": self._shape.created_at,
            "completed_at": None,
            "status": self._status,
            "error": None,
            "incomplete_details": None,
            "output": [item.as_json() for item in self._items],
            **self._shape.echo,
            **self._end,
        }


def usage_of(usage: wire.Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _failure(error: ApiError) -> dict[str, str]:
    """The standard knows few codes; ours is in front of the message."""
    code = "rate_limit_exceeded" if error.status_code == 429 else "server_error"
    return {"code": code, "message": f"{error.code}: {error.message}"}

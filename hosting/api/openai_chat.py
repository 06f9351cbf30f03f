"""The wire's events in the dialect of OpenAI's chat completions. It knows no HTTP and no rows.

Stream   role chunk per choice · content | reasoning_content | tool_calls deltas · finish chunk
         per choice · usage chunk, if asked for · [DONE]
Queue places, loading and prefill are comments: data that no client must understand.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from engine import wire
from hosting.actions.outcome import answer_of
from hosting.api import errors

DONE = "data: [DONE]\n\n"
KEEP_ALIVE = ": keep-alive\n\n"

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What all chunks of one answer repeat. `created` is Unix time."""

    id: str
    created: int
    model: str
    num_choices: int = 1
    includes_usage: bool = False
    wants_logprobs: bool = False


class ChatStream:
    """Lines to send for each event. Owner: one request."""

    def __init__(self, heading: Heading) -> None:
        self._heading = heading
        self._finished: dict[int, wire.Finished] = {}

    def opening(self) -> str:
        return "".join(
            self._chunk(choice, {"role": "assistant", "content": ""})
            for choice in range(self._heading.num_choices)
        )

    def lines(self, choice: int, event: wire.Event) -> str:
        """Raises ApiError for an event that ends the stream early."""
        match event:
            case wire.Queued():
                return f": queued {event.position}\n\n"
            case wire.Loading():
                return f": loading {event.fraction:.0%}\n\n"
            case wire.Prefilled():
                return f": prefill {event.done_tokens}/{event.total_tokens}\n\n"
            case wire.Delta():
                return self._delta(choice, event)
            case wire.Finished():
                return self._finish(choice, event)
            case wire.Failed() | wire.Refused():
                raise errors.of_event(event)
        return ""

    def closing(self) -> str:
        if not self._heading.includes_usage:
            return DONE
        finished = list(self._finished.values())
        usage = {"usage": usage_of(finished), "timings": timings_of(finished)}
        return _line(self._envelope() | {"choices": []} | usage) + DONE

    def _delta(self, choice: int, event: wire.Delta) -> str:
        logprobs = self._logprobs(event)
        if not (event.text or event.tool_call or logprobs):
            return ""
        return self._chunk(choice, _delta_fields(event), logprobs=logprobs)

    def _finish(self, choice: int, event: wire.Finished) -> str:
        if event.reason == wire.FinishReason.CANCELLED:
            raise errors.cancelled()
        self._finished[choice] = event
        return self._chunk(choice, {}, finish_reason=event.reason)

    def _chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        *,
        finish_reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
    ) -> str:
        one = {
            "index": choice,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        usage = {"usage": None} if self._heading.includes_usage else {}
        return _line(self._envelope() | {"choices": [one]} | usage)

    def _envelope(self) -> dict[str, Any]:
        return {
            "id": self._heading.id,
            "object": "chat.completion.chunk",
            "created": self._heading.created,
            "model": self._heading.model,
        }

    def _logprobs(self, event: wire.Delta) -> dict[str, Any] | None:
        if not self._heading.wants_logprobs or event.channel != wire.Channel.CONTENT:
            return None
        return {"content": list(map(_position, event.logprobs)), "refusal": None}


def completion(heading: Heading, histories: list[list[wire.Event]]) -> dict[str, Any]:
    """The answer in one piece, from the whole history of each choice."""
    finished = [history[-1] for history in histories]
    return {
        "id": heading.id,
        "object": "chat.completion",
        "created": heading.created,
        "model": heading.model,
        "choices": [_choice(heading, index, history) for index, history in enumerate(histories)],
        "usage": usage_of([event for event in finished if isinstance(event, wire.Finished)]),
    }


def error_line(error: errors.ApiError) -> str:
    return _line(error.error_body)


def usage_of(finished: list[wire.Finished]) -> dict[str, Any]:
    """The choices share one prompt, so it counts once."""
    usages = [event.usage for event in finished]
    prompt_tokens = usages[0].prompt_tokens if usages else 0
    completion_tokens = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usages[0].cached_tokens if usages else 0},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in usages)
        },
    }


def timings_of(finished: list[wire.Finished]) -> dict[str, Any]:
    """Seconds, of the choice that took longest."""
    timings = [event.timings for event in finished]
    first_tokens = [one.ttft_seconds for one in timings if one.ttft_seconds is not None]
    return {
        "queued_seconds": max((one.queued_seconds for one in timings), default=0.0),
        "ttft_seconds": max(first_tokens, default=None),
        "decode_seconds": max((one.decode_seconds for one in timings), default=0.0),
    }


def _choice(heading: Heading, index: int, history: list[wire.Event]) -> dict[str, Any]:
    deltas = [event for event in history if isinstance(event, wire.Delta)]
    finished = history[-1]
    assert isinstance(finished, wire.Finished)
    answer = answer_of(deltas)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.content or (None if answer.tool_calls else ""),
        "refusal": None,
    }
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = answer.tool_calls
    logprobs = _all_logprobs(deltas) if heading.wants_logprobs else None
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": finished.reason,
    }


def _delta_fields(event: wire.Delta) -> dict[str, Any]:
    match event.channel:
        case wire.Channel.CONTENT:
            return {"content": event.text}
        case wire.Channel.REASONING:
            return {"reasoning_content": event.text}
        case wire.Channel.TOOL_CALL:
            assert event.tool_call is not None
            return {"tool_calls": [_tool_call_fragment(event.tool_call, event.text)]}


def _tool_call_fragment(part: wire.ToolCallPart, text: str) -> dict[str, Any]:
    """`index` on every fragment; id, type and name on a call's first only."""
    if part.name is None:
        return {"index": part.index, "function": {"arguments": text}}
    function = {"name": part.name, "arguments": text}
    return {"index": part.index, "id": part.call_id, "type": "function", "function": function}


def _all_logprobs(deltas: list[wire.Delta]) -> dict[str, Any]:
    positions = [
        _position(position)
        for delta in deltas
        if delta.channel == wire.Channel.CONTENT
        for position in delta.logprobs
    ]
    return {"content": positions, "refusal": None}


def _position(position: wire.PositionLogprobs) -> dict[str, Any]:
    return _token(position.token) | {"top_logprobs": [_token(one) for one in position.top]}


def _token(token: wire.TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.text,
        "logprob": token.logprob,
        "bytes": list(token.text.encode("utf-8")),
    }


def _line(body: dict[str, Any]) -> str:
    return f"data: {_to_json(body)}\n\n"

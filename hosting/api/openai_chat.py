"""The wire's events in the dialect of OpenAI's chat completions. It knows no HTTP and no rows.

Stream   role chunk per choice · content | reasoning_content | tool_calls deltas · finish chunk
         per choice · usage chunk, if asked for · [DONE]
Queue places, loading and prefill are comments: data that no client must understand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from engine import wire
from hosting.actions.outcome import answer_of
from hosting.api import errors, sse
from hosting.api.dialect import History
from hosting.api.timings import timings_of

DONE = "data: [DONE]\n\n"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What all chunks of one answer repeat. `created` is Unix time."""

    id: str
    created: int
    model: str
    includes_usage: bool = False
    wants_logprobs: bool = False
    service_tier: str | None = None


class ChunkedReply:
    """What the replies of chats and of completions have in common: chunks, comments, their end."""

    chunk_object: str

    def __init__(self, heading: Heading) -> None:
        self._heading = heading
        self._finished: dict[int, wire.Finished] = {}

    def heartbeat(self) -> str:
        return sse.comment("keep-alive")

    def closing(self) -> str:
        if not self._heading.includes_usage:
            return DONE
        finished = [self._finished[choice] for choice in sorted(self._finished)]
        usage = {"usage": self._usage(finished), "timings": timings_of(finished)}
        return sse.data(self._envelope() | {"choices": []} | usage) + DONE

    def error(self, error: errors.ApiError) -> str:
        return sse.data(errors.openai_form(error).body)

    def _progress(self, event: wire.Event) -> str:
        told = sse.progress(event)
        return sse.comment(told) if told else ""

    def _send(self, choice: dict[str, Any]) -> str:
        usage = {"usage": None} if self._heading.includes_usage else {}
        return sse.data(self._envelope() | {"choices": [choice]} | usage)

    def _envelope(self) -> dict[str, Any]:
        tier = self._heading.service_tier
        told = {} if tier is None else {"service_tier": tier}
        return {
            "id": self._heading.id,
            "object": self.chunk_object,
            "created": self._heading.created,
            "model": self._heading.model,
            **told,
        }

    def _usage(self, finished: list[wire.Finished]) -> dict[str, Any]:
        return usage_of(finished)


class ChatReply(ChunkedReply):
    """A Reply (dialect.py)."""

    chunk_object = "chat.completion.chunk"

    def __init__(self, heading: Heading) -> None:
        super().__init__(heading)
        self._bare_calls: dict[tuple[int, int], wire.ToolCallPart] = {}  # without arguments so far

    def lines(self, choice: int, event: wire.Event) -> str:
        match event:
            case wire.Accepted():
                return self._chunk(choice, {"role": "assistant", "content": ""})
            case wire.Delta():
                return self._delta(choice, event)
            case wire.Finished():
                self._finished[choice] = event
                end = self._chunk(choice, {}, finish_reason=event.reason)
                return self._empty_arguments(choice) + end
        return self._progress(event)

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        choices = [_choice(self._heading, index, one) for index, one in enumerate(histories)]
        usage = usage_of([one[-1] for one in histories if isinstance(one[-1], wire.Finished)])
        whole = {"object": "chat.completion", "choices": choices, "usage": usage}
        return self._envelope() | whole

    def _delta(self, choice: int, event: wire.Delta) -> str:
        logprobs = self._logprobs(event)
        if not (event.text or event.tool_call or logprobs):
            return ""
        if event.tool_call is not None:
            self._note_call(choice, event.tool_call, has_arguments=bool(event.text))
        return self._chunk(choice, _delta_fields(event), logprobs=logprobs)

    def _note_call(self, choice: int, call: wire.ToolCallPart, *, has_arguments: bool) -> None:
        if has_arguments:
            self._bare_calls.pop((choice, call.index), None)
        elif call.name is not None:
            self._bare_calls[choice, call.index] = call

    def _empty_arguments(self, choice: int) -> str:
        """Of calls that were cut before they had any: clients read arguments as JSON."""
        calls = [call for (whose, _), call in self._bare_calls.items() if whose == choice]
        each = ({"index": call.index, "function": {"arguments": "{}"}} for call in calls)
        return "".join(self._chunk(choice, {"tool_calls": [one]}) for one in each)

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
        return self._send(one)

    def _logprobs(self, event: wire.Delta) -> dict[str, Any] | None:
        if not self._heading.wants_logprobs or event.channel != wire.Channel.CONTENT:
            return None
        return {"content": list(map(position_logprobs, event.logprobs)), "refusal": None}


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


def _choice(heading: Heading, index: int, history: History) -> dict[str, Any]:
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
        position_logprobs(position)
        for delta in deltas
        if delta.channel == wire.Channel.CONTENT
        for position in delta.logprobs
    ]
    return {"content": positions, "refusal": None}


def position_logprobs(position: wire.PositionLogprobs) -> dict[str, Any]:
    return _token(position.token) | {"top_logprobs": [_token(one) for one in position.top]}


def _token(token: wire.TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.text,
        "logprob": token.logprob,
        "bytes": list(token.content),
    }

"""Folds the events of one request into what is stored of it. Pure: no rows, no Redis."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from engine import wire
from hosting.models import Generation

_State = Generation.State
_NO_USAGE = wire.Usage(prompt_tokens=0)
_NO_TIMINGS = wire.Timings()
_ENDS = (wire.Refused, wire.Finished, wire.Failed)


@dataclasses.dataclass(slots=True, kw_only=True)
class Answer:
    """Text so far, by channel. Tool calls are in OpenAI's form, arguments as they came."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`end` is the ledger's word for how it ended."""

    state: Generation.State
    end: str
    answer: Answer
    finish_reason: str = ""
    error_code: str = ""
    error_detail: str = ""
    usage: wire.Usage = _NO_USAGE
    timings: wire.Timings = _NO_TIMINGS
    prefix: wire.PrefixUse | None = None
    events: Sequence[wire.Event] = ()  # all that it was made of


def fold(events: Sequence[wire.Event]) -> Outcome | None:
    """None while no end of a generation is among them. Texts are such as every database stores."""
    ends = [event for event in events if isinstance(event, _ENDS)]
    if not ends:
        return None
    deltas = (event for event in events if isinstance(event, wire.Delta))
    answer = Answer(**_storable(dataclasses.asdict(answer_of(deltas))))
    return dataclasses.replace(_ended(ends[0], answer), events=events)


def _ended(end: wire.Event, answer: Answer) -> Outcome:
    match end:
        case wire.Finished() as finished:
            return _finished(finished, answer)
        case wire.Failed() as failed:
            return failure("failed", failed.code, failed.detail, answer, failed.usage)
        case wire.Refused() as refused:
            return failure("refused", refused.code, refused.detail, answer)
    raise AssertionError("every terminal event is handled above")


def failure(
    end: str, code: str, detail: str, answer: Answer | None = None, usage: wire.Usage | None = None
) -> Outcome:
    return Outcome(
        state=_State.FAILED,
        end=end,
        error_code=code,
        error_detail=_storable(detail),
        answer=answer or Answer(),
        usage=usage or _NO_USAGE,
    )


def cancelled_before_start() -> Outcome:
    return Outcome(
        state=_State.CANCELLED, end="cancelled", finish_reason="cancelled", answer=Answer()
    )


def answer_of(deltas: Iterable[wire.Delta]) -> Answer:
    content: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, _ToolCall] = {}
    for delta in deltas:
        match delta.channel:
            case wire.Channel.CONTENT:
                content.append(delta.text)
            case wire.Channel.REASONING:
                reasoning.append(delta.text)
            case wire.Channel.TOOL_CALL if delta.tool_call is not None:
                calls.setdefault(delta.tool_call.index, _ToolCall()).take(delta)
    return Answer(
        content="".join(content),
        reasoning="".join(reasoning),
        tool_calls=[calls[index].as_openai() for index in sorted(calls)],
    )


class _ToolCall:
    """One call, from its fragments."""

    def __init__(self) -> None:
        self.call_id = self.name = ""
        self.arguments: list[str] = []

    def take(self, delta: wire.Delta) -> None:
        part = delta.tool_call
        assert part is not None
        self.call_id = part.call_id
        self.name = part.name or self.name
        self.arguments.append(delta.text)

    def as_openai(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments) or "{}"}
        return {"id": self.call_id, "type": "function", "function": function}


def _storable(value: Any) -> Any:
    """PostgreSQL stores no NUL and no database half a character: a model may emit both, for it
    writes escapes, and a complaint quote them."""
    match value:
        case str():
            return value.replace("\x00", "").encode(errors="replace").decode()
        case list():
            return [_storable(one) for one in value]
        case dict():
            return {name: _storable(one) for name, one in value.items()}
    return value


def _finished(event: wire.Finished, answer: Answer) -> Outcome:
    is_cancelled = event.reason == wire.FinishReason.CANCELLED
    return Outcome(
        state=_State.CANCELLED if is_cancelled else _State.DONE,
        end=event.reason,
        finish_reason=event.reason,
        answer=answer,
        usage=event.usage,
        timings=event.timings,
        prefix=event.prefix,
    )

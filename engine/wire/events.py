"""What intake and engine answer: past tense, frozen."""

from __future__ import annotations

import msgspec

from engine.wire.message import Message
from engine.wire.parts import (
    Channel,
    Code,
    FinishReason,
    PositionLogprobs,
    PrefixUse,
    Timings,
    ToolCallPart,
    Usage,
)


class Refused(Message, frozen=True, kw_only=True):
    """`param` names the field at fault; `numbers` what was asked and what is allowed.

    `retry_seconds` among them: when there may be room again.
    """

    code: Code
    detail: str
    param: str | None = None
    numbers: dict[str, int | float] = msgspec.field(default_factory=dict)


class Counted(Message, frozen=True, kw_only=True):
    """The answer to CountTokens. A prompt far beyond the context is refused instead."""

    prompt_tokens: int


class Accepted(Message, frozen=True, kw_only=True):
    prompt_tokens: int
    max_tokens: int


class Queued(Message, frozen=True, kw_only=True):
    """Place in the queue, 1 is next. `wait_seconds` is an estimate; None while nothing is known."""

    position: int
    wait_seconds: float | None = None


class Loading(Message, frozen=True, kw_only=True):
    fraction: float


class Started(Message, frozen=True, kw_only=True):
    cached_tokens: int


class Prefilled(Message, frozen=True, kw_only=True):
    done_tokens: int
    total_tokens: int


class Delta(Message, frozen=True, kw_only=True):
    """Tokens and the text they complete.

    Text may lag behind its tokens (half a character, a possible stop string) and then arrives with
    a later Delta. In a tool call, `text` is a fragment of the arguments' JSON.
    """

    channel: Channel
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[PositionLogprobs, ...] = ()
    tool_call: ToolCallPart | None = None


class Paused(Message, frozen=True, kw_only=True):
    """The row gave its memory to older ones. `Resumed` follows when there is enough again."""


class Embedded(Message, frozen=True, kw_only=True):
    """The vector of the input at `place`: base64 of little-endian float32, of length 1.

    After a crash some come again; they are the same.
    """

    place: int
    vector: str


class Scored(Message, frozen=True, kw_only=True):
    """How well the document at `place` answers the query, 0 to 1."""

    place: int
    score: float


class Resumed(Message, frozen=True, kw_only=True):
    """It goes on after `at_tokens` delivered tokens: in another engine, or after a pause."""

    at_tokens: int


class Finished(Message, frozen=True, kw_only=True):
    reason: FinishReason
    usage: Usage
    timings: Timings
    stop_string: str | None = None
    prefix: PrefixUse | None = None


class Failed(Message, frozen=True, kw_only=True):
    code: Code
    detail: str
    usage: Usage | None = None


Event = (
    Refused
    | Counted
    | Accepted
    | Queued
    | Loading
    | Started
    | Prefilled
    | Delta
    | Embedded
    | Scored
    | Paused
    | Resumed
    | Finished
    | Failed
)
TERMINAL_EVENTS = (Refused, Counted, Finished, Failed)
# How a request ends that is cancelled before anything of it was computed
CANCELLED_UNBEGUN = Finished(
    reason=FinishReason.CANCELLED, usage=Usage(prompt_tokens=0), timings=Timings()
)

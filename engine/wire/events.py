"""What intake and engine answer: past tense, frozen."""

from __future__ import annotations

import dataclasses

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """`param` names the field at fault; `numbers` what was asked and what is allowed.

    `retry_seconds` among them: when there may be room again.
    """

    code: Code
    detail: str
    param: str | None = None
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The answer to CountTokens. Of a text far beyond the context it is the least it has."""

    prompt_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    prompt_tokens: int
    max_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Place in the queue, 1 is next. `wait_seconds` is an estimate; None while nothing is known."""

    position: int
    wait_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    fraction: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    cached_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    done_tokens: int
    total_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Tokens and the text they complete.

    Text may lag behind its tokens (half a character, a possible stop string) and then arrives with
    a later Delta. In a tool call, `text` is a fragment of the arguments' JSON.
    """

    channel: Channel
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[PositionLogprobs, ...] = ()
    tool_call: ToolCallPart | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The row gave its memory to older ones. `Resumed` follows when there is enough again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vector of the input at `place`: base64 of little-endian float32, of length 1.

    After a crash some come again; they are the same.
    """

    place: int
    vector: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """How well the document at `place` answers the query, 0 to 1."""

    place: int
    score: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """It goes on after `at_tokens` delivered tokens: in another engine, or after a pause."""

    at_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    reason: FinishReason
    usage: Usage
    timings: Timings
    stop_string: str | None = None
    prefix: PrefixUse | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
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

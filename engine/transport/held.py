"""A request that this engine has leased, with all its events: enough to tell a forgetful Redis.

It does not know Redis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from engine import wire
from engine.core.delivery import AnyDelivery, Delivery, VectorDelivery

CACHED_COST = 0.02  # of a token that is computed: what a repeated prompt takes of a cold one

# Another engine may have the model, or more memory.
_NOT_HERE = (wire.Code.MODEL_LOAD_FAILED, wire.Code.DOES_NOT_FIT)

# What a restored request keeps of its hash; the script sets the rest itself.
_KEPT_FIELDS = (
    "born",
    "model",
    "tenant",
    "priority",
    "weight",
    "cost",
    "payload",
    "prompt_tokens",
    "least_tokens",
    "declined",
    "deadline_at",
    "queued_at",
    "order",
    "attempt",
    "crashes",
    "tokens_at_crash",
    "is_cancelled",
)


@dataclasses.dataclass(slots=True, kw_only=True)
class Held:
    """Live state, owned by the exchange thread.

    events  [ stored in Redis | not yet ]      the place in the list is the seq
                    `stored` ^
    """

    request_id: str
    fence: int
    values: dict[str, str]
    events: list[str]
    stored: int
    tokens: int
    has_begun: bool = False  # in this engine
    read_tokens: int | None = None  # how far its prompt has come, cached tokens included, if told
    cached_tokens: int = 0  # of the prompt, as the end tells
    is_ended: bool = False
    may_be_declined: bool = False  # its end is that this engine cannot serve it
    ended_at: float | None = None

    @property
    def is_behind(self) -> bool:
        return self.stored < len(self.events)

    def add(self, event: wire.Event) -> None:
        self.events.append(wire.encode(event))
        match event:
            case wire.Delta(token_ids=token_ids):
                self.tokens += len(token_ids)
            case wire.Started() | wire.Resumed():
                self.has_begun = True
            case wire.Prefilled(done_tokens=done_tokens):
                self.read_tokens = max(self.read_tokens or 0, done_tokens)
        if isinstance(event, wire.TERMINAL_EVENTS):
            self.is_ended = True
            self.may_be_declined = isinstance(event, wire.Failed) and event.code in _NOT_HERE
            self.cached_tokens = _cached_tokens(event)

    @property
    def prompt_cost(self) -> float:
        """What was read of the prompt takes of its tenant's share. Nobody pays for what is read
        again because a row gave way."""
        read_tokens = self._num_read
        cached_tokens = min(self.cached_tokens, read_tokens)
        return read_tokens - cached_tokens * (1 - CACHED_COST)

    @property
    def _num_read(self) -> int:
        if not (self.has_begun or self.tokens):
            return 0
        prompt_tokens = int(self.values["prompt_tokens"])
        if self.tokens or self.read_tokens is None:
            return prompt_tokens
        return min(self.read_tokens, prompt_tokens)


def _cached_tokens(end: wire.Event) -> int:
    usage = end.usage if isinstance(end, wire.Finished | wire.Failed) else None
    return usage.cached_tokens if usage is not None else 0


def held_from(request_id: str, values: Mapping[str, str], history: Sequence[str]) -> Held:
    """What `pull` returned about one request."""
    return Held(
        request_id=request_id,
        fence=int(values["fence"]),
        values={name: values[name] for name in _KEPT_FIELDS if name in values},
        events=list(history),
        stored=len(history),
        tokens=int(values["tokens"]),
    )


def delivery_from(held: Held) -> AnyDelivery:
    crashes, tokens_at_crash = int(held.values["crashes"]), int(held.values["tokens_at_crash"])
    work = wire.decode(held.values["payload"])
    known: dict[str, Any] = {
        "fence": held.fence,
        "attempt": int(held.values["attempt"]),
        "next_seq": len(held.events),
        "is_suspect": crashes > 0 and held.tokens <= tokens_at_crash + 1,  # lua/_request.lua
    }
    if isinstance(work, wire.VectorWork):
        return VectorDelivery(work=work, **known)
    delivered = _delivered_token_ids(held.events) if held.tokens else ()
    cached_tokens = _cached_tokens_told(held.events)
    return Delivery(work=work, delivered_token_ids=delivered, cached_tokens=cached_tokens, **known)


def _cached_tokens_told(events: Sequence[str]) -> int | None:
    """When it began; None: it has not."""
    decoded = (wire.decode(line) for line in events)
    return next((one.cached_tokens for one in decoded if isinstance(one, wire.Started)), None)


def _delivered_token_ids(events: Sequence[str]) -> tuple[int, ...]:
    deltas = (event for line in events if isinstance(event := wire.decode(line), wire.Delta))
    return tuple(token_id for delta in deltas for token_id in delta.token_ids)

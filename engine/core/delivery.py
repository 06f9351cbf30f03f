"""What the transport hands to the engine besides commands. It does not know how it travelled."""

from __future__ import annotations

import dataclasses

from engine import wire
from engine.core.blocks import token_bytes
from engine.core.images import named_tokens


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One request pulled from the fair queue, with what earlier attempts have already delivered.

    `cached_tokens`: what it did not have to compute at its beginning; None: it has not begun.
    `is_suspect`: an engine died at work on it, and no batch has drawn a token of it since.
    `is_forgotten`: nothing of it is kept in the prefix cache.
    `token_bytes`: all known tokens as the prefix cache hashes them, made off the model thread.
    """

    work: wire.Work
    fence: int
    attempt: int
    next_seq: int
    delivered_token_ids: tuple[int, ...] = ()
    cached_tokens: int | None = None
    is_suspect: bool = False
    is_forgotten: bool = False
    token_bytes: bytes = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = token_bytes(named_tokens(self.work)) + token_bytes(self.delivered_token_ids)
        object.__setattr__(self, "token_bytes", known)

    @property
    def usage(self) -> wire.Usage:
        """What earlier attempts have spent: nothing where none has begun."""
        has_begun = self.cached_tokens is not None or bool(self.delivered_token_ids)
        return wire.Usage(
            prompt_tokens=len(self.work.prompt_token_ids) if has_begun else 0,
            cached_tokens=self.cached_tokens or 0,
            completion_tokens=len(self.delivered_token_ids),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorDelivery:
    """The same of a request for vectors or scores, which begins anew after a crash."""

    work: wire.VectorWork
    fence: int
    attempt: int
    next_seq: int
    is_suspect: bool = False

    @property
    def usage(self) -> wire.Usage:
        """Likewise."""
        return wire.Usage(prompt_tokens=self.work.num_tokens if self.attempt > 1 else 0)


AnyDelivery = Delivery | VectorDelivery


def is_overdue(delivery: AnyDelivery, now: float) -> bool:
    """`now` is Unix time."""
    deadline = delivery.work.deadline_at
    return deadline is not None and now > deadline


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The lease of this request is lost: forget its row, publish nothing more for it."""

    request_id: str

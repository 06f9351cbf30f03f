"""What the transport hands to the engine besides commands. It does not know how it travelled."""

from __future__ import annotations

import dataclasses

from engine import wire


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One request pulled from the fair queue, with what earlier attempts have already delivered.

    `is_suspect`: it was live when an engine died and has not produced a token since.
    """

    work: wire.Work
    fence: int
    attempt: int
    next_seq: int
    delivered_token_ids: tuple[int, ...] = ()
    is_suspect: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The lease of this request is lost: forget its row, publish nothing more for it."""

    request_id: str

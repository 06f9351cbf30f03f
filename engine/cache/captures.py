"""Copies of what a row computed, as they are asked for and handed over; opaque but in size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from engine.cache.record import ArrayBytes, Readout
from engine.core.blocks import Span


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """Opaque to the cache but for its size. What the content takes it takes when it is computed:
    the cache asks for that when it has made room, and not where it could not."""

    content: Any
    num_bytes: int


class Contents(NamedTuple):
    """What the model side does with them: begin to compute some, hand one that is computed to the
    disk, bring it back."""

    compute: Callable[[Sequence[Any]], None]
    dump: Callable[[Any], Readout]
    revive: Callable[[Sequence[ArrayBytes]], Payload]


class Capture(NamedTuple):
    """A block worth copying: which kinds of it the request may not use yet."""

    span: Span
    wants_slice: bool
    wants_boundary: bool


class Captured(NamedTuple):
    """What the model side copied for one block; None for a kind that is not wanted or not there."""

    span: Span
    slice: Payload | None
    boundary: Payload | None

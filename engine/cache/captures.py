"""Copies of what a row computed, as they are asked for and handed over; opaque but in size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from engine.core.blocks import Span


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """Opaque to the cache but for its size. `compute` begins to make the content, which takes its
    bytes: the cache calls it when it has made room for them, and not where it could not."""

    content: Any
    num_bytes: int
    compute: Callable[[], None] = lambda: None


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

"""What memory allows in one turn. Frozen: every model of the turn sees the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine.core.turnstile import Turnstile
from engine.wire import Level


def _nothing(_: int, __: int) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`free_bytes` may still be used. `is_quiet`: nobody has a row, so that the next request gets
    one whatever the level: intake let in nothing that does not fit alone. `own_free_bytes`: what
    one model's own ceiling leaves; its first row need not ask, for the same reason. `tier_bytes`:
    what the prefix cache holds; `make_room` takes it away as far as a step needs the room. It is
    told how much of what rows hold may be copied into it, too."""

    level: Level = Level.CALM
    free_bytes: int = 1 << 62
    is_quiet: bool = False
    own_free_bytes: int = 1 << 62
    tier_bytes: int = 0
    make_room: Callable[[int, int], None] = _nothing
    turnstile: Turnstile = dataclasses.field(default_factory=Turnstile)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What of a step there is memory for: so many of the rows that are ready may join, the first
    ones; the next slice. Where nobody decodes, one row joins or one slice is computed anyway."""

    most_joins: int = 1 << 20
    may_slice: bool = True


NO_LIMITS = Limits(is_quiet=True)
ALL_FITS = Fitting()

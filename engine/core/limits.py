"""What memory allows in one turn. Frozen: every model of the turn sees the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine.core.turnstile import Turnstile
from engine.wire import Level

_PLENTY_BYTES = 1 << 62


def _nothing(*_: int) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`free_bytes` may still be used. `is_quiet`: nobody has a row, so that the next request gets
    one whatever the level: intake let in nothing that does not fit alone. `own_free_bytes`: what
    one model's own ceiling leaves; its first row need not ask, for the same reason. `tier_bytes`:
    what the prefix cache holds; `make_room` takes it away as far as a step needs the room. It is
    told how much of what rows hold may be copied into it, too. `idle_bytes`: what a model would
    leave that nobody has used for a while; `dismiss_idle` sends it away. `give_all`: the device
    takes no more, whatever is free by these numbers."""

    level: Level = Level.CALM
    free_bytes: int = _PLENTY_BYTES
    is_quiet: bool = False
    own_free_bytes: int = _PLENTY_BYTES
    tier_bytes: int = 0
    make_room: Callable[[int, int], None] = _nothing
    idle_bytes: int = 0
    dismiss_idle: Callable[[], None] = _nothing
    give_all: Callable[[], None] = _nothing
    turnstile: Turnstile = dataclasses.field(default_factory=Turnstile)

    @property
    def room_bytes(self) -> int:
        """What one model may take, the prefix cache's memory included."""
        return min(self.free_bytes + self.tier_bytes, self.own_free_bytes)

    def has_room(self, num_bytes: int, *, is_first: bool = False) -> bool:
        """Where only an idle model is in the way it goes, and there will be room when it has.
        `is_first`: a row that its model's own ceiling does not count for."""
        own_bytes = _PLENTY_BYTES if is_first else self.own_free_bytes
        free_bytes = self.free_bytes + self.tier_bytes
        if num_bytes > own_bytes:
            return False
        if free_bytes < num_bytes <= free_bytes + self.idle_bytes:
            self.dismiss_idle()
        return num_bytes <= free_bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What of a step there is memory for: so many of the rows that are ready may join, the first
    ones; the next slice of every prompt but those of `no_room_for`, which are request_ids. Where
    nobody decodes, one row joins or one slice is computed anyway. `may_draft`: what drafting holds
    of a row may stay and grow."""

    most_joins: int = 1 << 20
    no_room_for: frozenset[str] = frozenset()
    may_draft: bool = True


NO_LIMITS = Limits(is_quiet=True)
ALL_FITS = Fitting()

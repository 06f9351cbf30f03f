"""The models that are in memory, and which of them goes when its place is needed.

Who goes takes nothing new; what it has begun ends first. Owner: the model thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from engine.core.delivery import AnyDelivery
from engine.shelf import Handle

TURN_SECONDS = 30.0  # what a model has at least before another that waits takes its place


class Residents:
    """Invariant: a handle is either served or leaving."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served: dict[str, Handle] = {}  # in the order in which they came
        self._leaving: list[Handle] = []
        self._changed_at = float("-inf")

    def __contains__(self, name: str) -> bool:
        return name in self._served

    def __iter__(self) -> Iterator[Handle]:
        """Those that take requests."""
        return iter(self._served.values())

    @property
    def all(self) -> list[Handle]:
        """Every model that may still compute something."""
        return [*self._served.values(), *self._leaving]

    def get(self, name: str) -> Handle | None:
        return self._served.get(name)

    def add(self, handle: Handle) -> None:
        self._served[handle.spec.name] = handle
        self._changed_at = self._clock()

    def dismiss(self, name: str) -> None:
        """Once its rows have ended."""
        if (handle := self._served.pop(name, None)) is not None:
            self._leaving.append(handle)

    def dismiss_unused(self) -> None:
        """Those that nobody has used for longer than their setting says."""
        now = self._clock()
        for handle in list(self._movable):
            limit = handle.spec.idle_unload_seconds
            if limit is not None and handle.is_idle and now - handle.last_used_at > limit:
                self.dismiss(handle.spec.name)

    def dismiss_idle(self, *, unused_seconds: float = 0.0) -> bool:
        """The idle model that was used longest ago, if there is one."""
        if (handle := self.idle(unused_seconds)) is None:
            return False
        self.dismiss(handle.spec.name)
        return True

    def idle(self, unused_seconds: float = 0.0) -> Handle | None:
        until = self._clock() - unused_seconds
        return self._unused_longest(lambda one: one.is_idle and one.last_used_at <= until)

    def dismiss_for(self, *, waits_since: float) -> None:
        """None is idle, and another model's requests wait: after their turn the one that came
        first goes. While one is leaving, no other does."""
        has_had_turn = self._clock() - max(waits_since, self._changed_at) >= TURN_SECONDS
        first = next(self._movable, None)
        if first is not None and has_had_turn and not self._leaving:
            self.dismiss(first.spec.name)

    def set_aside(self) -> Sequence[AnyDelivery] | None:
        """None is idle, and one has to go at once: one that has no rows. Its requests, which wait
        until it is loaded again; None where all have rows."""
        if (handle := self._unused_longest(lambda one: not one.has_rows)) is None:
            return None
        self.dismiss(handle.spec.name)
        return handle.give_back()

    def take_departed(self) -> list[Handle]:
        """Who has left, with nothing to compute any more. The caller drops the last reference."""
        departed = [handle for handle in self._leaving if handle.is_idle]
        self._leaving = [handle for handle in self._leaving if not handle.is_idle]
        return departed

    @property
    def _movable(self) -> Iterator[Handle]:
        return (one for one in self._served.values() if not one.spec.is_pinned)

    def _unused_longest(self, may_go: Callable[[Handle], bool]) -> Handle | None:
        return min(filter(may_go, self._movable), key=lambda one: one.last_used_at, default=None)

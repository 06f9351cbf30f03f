"""Requests that an engine was at work on when it died: let in one at a time, so that innocents
outlive the one that kills. A suspect is cleared when the batch has drawn a token of it, or it is
gone.
"""

from __future__ import annotations

import collections

from engine.core.delivery import AnyDelivery, is_overdue


class SuspectGate:
    def __init__(self) -> None:
        self._inside: str | None = None
        self._held: collections.deque[AnyDelivery] = collections.deque()

    @property
    def inside(self) -> str | None:
        """The suspect that runs and is not cleared yet."""
        return self._inside

    @property
    def held(self) -> tuple[AnyDelivery, ...]:
        return tuple(self._held)

    def admit(self, delivery: AnyDelivery) -> bool:
        """May this delivery start now? If not, it is held until its turn."""
        if not delivery.is_suspect:
            return True
        if self._inside is not None:
            self._held.append(delivery)
            return False
        self._inside = delivery.work.request_id
        return True

    def clear(self) -> AnyDelivery | None:
        """The suspect inside is cleared; the next one that may start."""
        self._inside = None
        if not self._held:
            return None
        delivery = self._held.popleft()
        self._inside = delivery.work.request_id
        return delivery

    def take_overdue(self, now: float) -> list[AnyDelivery]:
        """Held suspects whose deadline has passed are not held any more. `now` is Unix time."""
        overdue = [one for one in self._held if is_overdue(one, now)]
        for one in overdue:
            self._held.remove(one)
        return overdue

    def drop(self, request_id: str) -> bool:
        """A held suspect is cancelled or lost; True if it was held here."""
        before = len(self._held)
        self._held = collections.deque(
            one for one in self._held if one.work.request_id != request_id
        )
        return len(self._held) < before

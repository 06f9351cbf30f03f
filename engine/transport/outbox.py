"""Events on their way from the model thread to the exchange thread.

What somebody waits for goes at once, with all that its request said before; what other requests
say goes when an interval has passed since all went: on many rows one first token, or one end, would
else cut everybody's tokens into messages of their own.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from engine.core.delivery import AnyDelivery, Dropped
from engine.transport.bundle import INTERVAL_SECONDS, Haste, Published, Urgency, bundled
from engine.transport.former_lives import Entry, FormerLives
from engine.transport.inbox import Received

_One = TypeVar("_One")


class Outbox:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._urgency = Urgency()  # the model thread's
        self._entries: collections.deque[Entry] = collections.deque()  # of both threads
        self._urgent_ids: collections.deque[str] = collections.deque()  # of both
        self._former_lives = FormerLives()  # the exchange thread's, as all below
        self._kept: list[Entry] = []
        self._all_taken_at = float("-inf")

    def note_taken(self, received: Iterable[Received]) -> None:
        """By the model thread: what it says from now on is of these deliveries, and of nobody who
        was dropped."""
        for one in received:
            if isinstance(one, AnyDelivery):
                self._urgency.forget(one.work.request_id)
                self._entries.append(one)
            elif isinstance(one, Dropped):
                self._urgency.forget(one.request_id)

    def put(self, events: Sequence[Published]) -> Haste:
        """The model thread's."""
        self._entries.extend(events)
        haste, urgent_ids = self._urgency.of(events)
        self._urgent_ids.extend(urgent_ids)
        return haste

    def expect(self, deliveries: Iterable[AnyDelivery]) -> None:
        """They were pulled, and the model thread does not have them yet."""
        self._former_lives.expect(deliveries)

    @property
    def seconds_left(self) -> float:
        """Until what is kept has to go, though nothing more comes."""
        return max(0.0, self.seconds_until_all) if self._kept else math.inf

    @property
    def seconds_until_all(self) -> float:
        return self._all_taken_at + INTERVAL_SECONDS - self._clock()

    def take(self) -> list[Published]:
        """What is to be sent now."""
        urgent_ids = set(_drained(self._urgent_ids))  # what they said is among the entries
        entries, self._kept = [*self._kept, *_drained(self._entries)], []
        if self.seconds_until_all > 0:
            entries = [one for one in entries if self._is_of(urgent_ids, one)]
        if not self._kept:
            self._all_taken_at = self._clock()
        return bundled(self._former_lives.sift(entries))

    def take_all(self) -> list[Published]:
        self._all_taken_at = float("-inf")
        return self.take()

    def _is_of(self, request_ids: set[str], entry: Entry) -> bool:
        """Else it is kept."""
        request_id = entry.work.request_id if isinstance(entry, AnyDelivery) else entry[0]
        if request_id in request_ids:
            return True
        self._kept.append(entry)
        return False


def _drained(queue: collections.deque[_One]) -> list[_One]:
    return [queue.popleft() for _ in range(len(queue))]

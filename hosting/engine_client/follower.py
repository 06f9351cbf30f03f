"""One reader of one request's events: what it has, what it waits for. It does not know Redis."""

from __future__ import annotations

import asyncio
import collections
import time

from engine import wire

MAX_QUEUED = 512  # beyond this a follower is slow and reads ranges instead

Numbered = tuple[int, wire.Event]


class Absence:
    """How long something has been missing without a break."""

    def __init__(self) -> None:
        self._since: float | None = None

    def seconds(self) -> float:
        """Counts from the first call on."""
        now = time.monotonic()
        self._since = self._since or now
        return now - self._since

    def end(self) -> None:
        self._since = None


class Follower:
    """Owned by the event loop of its hub.

    `after` is the seq last handed on; `is_live` says that the hub's reader fills the queue;
    `is_confirmed` that Redis knows the request, as far as is known; `born` tells a request from one
    submitted again after Redis lost everything.
    """

    def __init__(self, request_id: str, *, after: int) -> None:
        self.request_id = request_id
        self.after = after
        self.is_live = False
        self.is_done = False
        self.is_quiet = True
        self.arrived = asyncio.Event()
        self._queue: collections.deque[Numbered] = collections.deque()
        self.is_confirmed = False
        self.born: str | None = None
        self.redis_away = Absence()
        self.request_missing = Absence()

    @property
    def cursor(self) -> str:
        """The entry last handed on, of the request as it was born."""
        assert self.born is not None
        return wire.entry_id(self.after, self.born)

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    def offer(self, numbered: Numbered) -> bool:
        """Queue an event. False when the queue is full: the hub then stops filling it."""
        if len(self._queue) >= MAX_QUEUED:
            return False
        self._queue.append(numbered)
        self.arrived.set()
        return True

    def nudge(self) -> None:
        """Wake the follower without an event, so that it looks after its request."""
        self.arrived.set()

    async def take(self) -> list[Numbered]:
        """What arrived since the last call, or nothing after a nudge."""
        await self.arrived.wait()
        self.arrived.clear()
        queued = list(self._queue)
        self._queue.clear()
        return self.accept(queued)

    def accept(self, events: list[Numbered]) -> list[Numbered]:
        """The events that come next. What is known is dropped; behind a gap nothing is taken."""
        accepted = [one for one in events if one[0] > self.after]
        for place, (seq, event) in enumerate(accepted):
            if seq != self.after + 1:
                self.is_live = False
                return accepted[:place]
            self.after = seq
            self.is_done = isinstance(event, wire.TERMINAL_EVENTS)
        return accepted

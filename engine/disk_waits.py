"""Requests whose prompts' beginnings are read from disk, and until when each waits for that before
it computes. What the disk brings later is used all the same.

It does not know how long is worth it; reuse.py does. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.core.scheduler import Scheduler
from engine.core.sequence import Status
from engine.live_request import LiveRequest
from engine.safe_reuse import Reuse


class DiskWaits:
    """Of one model. `clock`: monotonic, as that of `reuse`."""

    def __init__(self, reuse: Reuse | None, scheduler: Scheduler, clock: Callable[[], float]):
        self._reuse = reuse
        self._scheduler = scheduler
        self._clock = clock
        self._waiting: dict[str, tuple[LiveRequest, float]] = {}  # by request_id

    def __len__(self) -> int:
        return len(self._waiting)

    def read(self, live: LiveRequest) -> float | None:
        """Begin to read what there is of it. Until when to wait for that; None: no need to."""
        if self._reuse is None:
            return None
        return self._reuse.begin(live, prefill_seconds=self._seconds_of(live))

    def enter(self, live: LiveRequest) -> None:
        """It waits for the disk, or else for a row."""
        self._wait(live, self.read(live))

    def end_reading(self, live: LiveRequest) -> bool:
        """What there is of it is in memory, or is not to be had. Whether it has waited for that."""
        if self._reuse is None or live.request_id not in self._waiting:
            return False
        seconds = self._seconds_of(live)
        self._wait(live, self._reuse.begin_again(live, prefill_seconds=seconds))
        return True

    def end_patience(self) -> None:
        """Requests whose disk is slow compute."""
        now = self._clock()
        for live in [live for live, until in self._waiting.values() if until <= now]:
            self._wait(live, self._reuse.wait_on(live) if self._reuse is not None else None)

    def leave(self, request_id: str) -> bool:
        """It has ended. Whether it was waiting here."""
        return self._waiting.pop(request_id, None) is not None

    def _seconds_of(self, live: LiveRequest) -> Callable[[int], float]:
        """What computing so many tokens from its prompt's beginning takes."""
        cost, sequence = self._scheduler.cost, live.sequence
        return lambda num: cost.predict(num, images=sequence.images_left(0, num))

    def _wait(self, live: LiveRequest, until: float | None) -> None:
        if until is not None:
            live.sequence.status = Status.RESTORING
            self._waiting[live.request_id] = live, until
            return
        self._waiting.pop(live.request_id, None)
        self._scheduler.add(live.sequence)

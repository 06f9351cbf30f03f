"""What engines said of themselves last, read no more often than it changes. It decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from engine import wire

_FRESH_SECONDS = 2.0
_IDLE_SECONDS = 0.9


class Heartbeats:
    """Used by one thread. `read` reads the engines' last heartbeats."""

    def __init__(
        self,
        read: Callable[[], Iterable[wire.EngineStatus]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._read_at = float("-inf")
        self._beats: tuple[wire.EngineStatus, ...] = ()

    def get(self) -> tuple[wire.EngineStatus, ...]:
        return self._refreshed(_FRESH_SECONDS)

    def prepare(self) -> None:
        """To be called while nobody waits: then the next request seldom waits for heartbeats."""
        self._refreshed(_IDLE_SECONDS)

    def wants_boundaries(self, model: str) -> bool:
        """Whether a model is loaded somewhere with rows that are kept at boundaries, or nowhere."""
        statuses = (one for beat in self.get() for one in beat.models)
        loaded = [one for one in statuses if one.name == model and one.state == "loaded"]
        return not loaded or any(one.wants_boundaries for one in loaded)

    def _refreshed(self, fresh_seconds: float) -> tuple[wire.EngineStatus, ...]:
        if self._clock() - self._read_at >= fresh_seconds:
            self._read_at = self._clock()
            self._beats = tuple(self._read())
        return self._beats

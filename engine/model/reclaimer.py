"""When to give unused buffers back to the system. It does not know how; Memory does.

Clearing while a prompt computes throws away what its next slice needs; never clearing brings slow
first tokens; clearing at the instant a request ends has brought Macs down. So it waits a little.
"""

from __future__ import annotations

from collections.abc import Callable

_STEPS_TO_WAIT = 8
_SECONDS_TO_WAIT = 0.1


class Reclaimer:
    def __init__(self, clear_buffers: Callable[[], None]):
        self._clear_buffers = clear_buffers
        self._wanted_at: float | None = None
        self._steps_since = 0

    def want(self, *, now: float) -> None:
        """A request has ended. A burst of ends moves the date back, it does not add clears."""
        self._wanted_at = now
        self._steps_since = 0

    def after_step(self, *, now: float, awaits_first_token: bool) -> bool:
        """Clear if it is due; True if it was."""
        if self._wanted_at is None:
            return False
        self._steps_since += 1
        has_waited = (
            self._steps_since >= _STEPS_TO_WAIT or now - self._wanted_at >= _SECONDS_TO_WAIT
        )
        if awaits_first_token or not has_waited:
            return False
        self.clear_now()
        return True

    def clear_now(self) -> None:
        """The guard needs the memory at once."""
        self._wanted_at = None
        self._clear_buffers()

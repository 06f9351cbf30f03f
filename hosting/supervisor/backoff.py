"""How long to wait before a process is started again. Pure."""

from __future__ import annotations

HEALTHY_SECONDS = 10.0
FIRST_DELAY_SECONDS = 0.1
SECOND_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0


class Backoff:
    """At once after a healthy life; then 0.5 s, 1 s, 2 s ... up to half a minute."""

    def __init__(self) -> None:
        self._short_lives = 0

    def next_delay(self, *, lived_seconds: float) -> float:
        if lived_seconds >= HEALTHY_SECONDS:
            self._short_lives = 0
        delay = FIRST_DELAY_SECONDS
        if self._short_lives:
            delay = min(LONGEST_DELAY_SECONDS, SECOND_DELAY_SECONDS * 2 ** (self._short_lives - 1))
        self._short_lives += 1
        return delay

"""Who gets a row next when memory is short: a large request is passed over, but not for ever.

Small ones may go before one that does not fit now, so that memory is used. After MOST_PASSES of
them nobody is let in any more until it has its row. Pure; one for all models of an engine.
"""

from __future__ import annotations

from typing import Protocol

from engine.core.sequence import Status

MOST_PASSES = 8


class Waiting(Protocol):
    """A sequence, or who else needs memory. `passed_since`: the turnstile's own note."""

    passed_since: int | None

    @property
    def status(self) -> Status: ...


class Turnstile:
    def __init__(self) -> None:
        self._num_admitted = 0
        self._first: Waiting | None = None  # of those refused: the one that waits longest

    def is_open_to(self, sequence: Waiting) -> bool:
        first = self._first
        if first is None or first is sequence or first.status is not Status.WAITING:
            return True
        return self._num_passes(first) < MOST_PASSES

    def note_admitted(self, sequence: Waiting) -> None:
        self._num_admitted += 1
        sequence.passed_since = None

    def note_refused(self, sequence: Waiting) -> None:
        """It does not fit now."""
        if sequence.passed_since is None:
            sequence.passed_since = self._num_admitted
        first = self._first
        if first is not None and first.status is not Status.WAITING:
            first = None
        if first is None or self._num_passes(sequence) > self._num_passes(first):
            self._first = sequence

    def _num_passes(self, sequence: Waiting) -> int:
        since = sequence.passed_since
        return 0 if since is None else self._num_admitted - since

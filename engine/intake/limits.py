"""Caps on what one request may cost intake: time and memory. For the main thread of a process."""

from __future__ import annotations

import contextlib
import resource
import signal
from types import FrameType

import psutil

# Room for a few tokenizers and one hostile template beyond what the process has at its start.
MEMORY_BYTES = 3 * 1024**3
_AGAIN_SECONDS = 0.1  # an exception inside a destructor is swallowed: raise it once more


class TooSlow(Exception):
    """The work took longer than it may."""


class TimeLimit:
    """Raise TooSlow in the middle of pure Python code that runs longer.

    Alarms that come while it begins, ends or answers one count for nothing: raised there, one would
    leave the timer on for whatever runs later.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_deaf = False

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._is_deaf = True
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self, _number: int, frame: FrameType | None) -> None:
        if self._is_deaf:
            return
        self._is_deaf = True  # reading `f_code` runs audit hooks, and an alarm may come in one
        try:
            is_ours = frame is not None and frame.f_code in _OWN_CODE
        finally:
            self._is_deaf = False
        if not is_ours:
            raise TooSlow


_OWN_CODE = frozenset(
    method.__code__ for method in (TimeLimit.__enter__, TimeLimit.__exit__, TimeLimit._stop)
)


def limit_memory(more_bytes: int = MEMORY_BYTES) -> None:
    """From now on an allocation beyond the cap is a MemoryError. macOS takes none below what is
    mapped already, hundreds of GB in every process."""
    cap = psutil.Process().memory_info().vms + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or cap < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (cap, hard))

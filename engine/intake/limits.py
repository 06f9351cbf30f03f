"""Caps on what one request may cost intake: time and memory. For the main thread of a process."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from types import FrameType

import psutil

# Room for a few tokenizers and one hostile template beyond what the process has at its start.
MEMORY_BYTES = 3 * 1024**3
_AGAIN_SECONDS = 0.1  # an exception inside a destructor is swallowed: raise it once more


class TooSlow(Exception):
    """The work took longer than it may."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the middle of pure Python code that runs longer."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def limit_memory(more_bytes: int = MEMORY_BYTES) -> None:
    """From now on an allocation beyond the cap is a MemoryError. macOS does not enforce it."""
    cap = psutil.Process().memory_info().vms + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or cap < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (cap, hard))

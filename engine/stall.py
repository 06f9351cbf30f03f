"""Is the engine stuck? For how many seconds has it had work without computing anything.

A step that is expected to be long is not stuck while it takes a few times that; afterwards all of
its time counts, so that a hang in a slice is seen as soon as one between steps. Only time in which
it could have moved counts: not what its threads wait for a processor on a busy machine, nor while
the system brings back what it put to disk of an idle engine, nor a pause of the whole process.
Where the system compresses in memory what an idle engine has, nothing counts what comes back: there
the first step after a while may take what that takes.
Written by the model thread; one other thread looks about once a second.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 4.0  # a step may take so many times what is expected of it
MANY_PAGE_INS = 50  # between two looks: a disk brings hundreds of pages a second
LONG_IDLE_SECONDS = 10.0
_LONGEST_LOOK_SECONDS = 1.5  # who looks later was stopped itself
_THREADS = Path("/proc/self/task")

ReadSeconds = Callable[[], float]


def _num_page_ins() -> int:
    """How many pages of memory this process has waited for that were on a disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


class StallClock:
    """`starved_seconds`: how long the process's threads waited for a processor since last asked.
    `waking_seconds`: what may pass until all of its memory has come back uncompressed."""

    def __init__(
        self,
        *,
        clock: ReadSeconds = time.monotonic,
        starved_seconds: ReadSeconds | None = None,
        num_page_ins: Callable[[], int] = _num_page_ins,
        waking_seconds: ReadSeconds = lambda: 0.0,
    ) -> None:
        self._clock = clock
        self._read_waking_seconds = waking_seconds
        self._waking_seconds = 0.0
        self._starved_seconds = starved_seconds or Starvation().take_seconds
        self._num_page_ins = num_page_ins
        self._page_ins = num_page_ins()
        self._lock = threading.Lock()
        self._is_busy = False
        self._expected_seconds = 0.0
        self._moved_at = self._looked_at = clock()
        self._still_seconds = 0.0

    def note_busy(self, is_busy: bool) -> None:
        """Is there anything that should move? Becoming busy starts the clock."""
        with self._lock:
            if is_busy and not self._is_busy:
                now = self._clock()
                if now - self._moved_at >= LONG_IDLE_SECONDS:
                    self._waking_seconds = self._read_waking_seconds()
                self._moved_at = now
            self._is_busy = is_busy

    def note_progress(self) -> None:
        self._moved_at = self._clock()
        self._waking_seconds = 0.0

    @contextmanager
    def working(self, expected_seconds: float) -> Iterator[None]:
        """Around something that is known to take a while: steps, a portion of a load."""
        self._expected_seconds = expected_seconds
        try:
            yield
        finally:
            self._expected_seconds = 0.0

    def look(self) -> float:
        """Seconds without progress; 0 while there is no work, or what it does may take so long."""
        with self._lock:
            now, starved = self._clock(), self._starved_seconds()
            if self._moved_at >= self._looked_at or not self._is_busy:
                self._still_seconds = 0.0
            since = max(self._moved_at, self._looked_at) if self._is_busy else now
            passed = min(now - since, _LONGEST_LOOK_SECONDS)
            if not self._is_paged_in():
                self._still_seconds += max(0.0, passed - starved)
            self._looked_at = now
            explained_seconds = max(PATIENCE * self._expected_seconds, self._waking_seconds)
            is_explained = self._still_seconds <= explained_seconds
            return 0.0 if is_explained else self._still_seconds

    def _is_paged_in(self) -> bool:
        before, self._page_ins = self._page_ins, self._num_page_ins()
        return self._page_ins - before >= MANY_PAGE_INS


class Starvation:
    """What Linux tells of the time that threads wait for a processor; nothing elsewhere."""

    def __init__(self, threads: Path = _THREADS) -> None:
        self._threads = threads
        self._waited: dict[str, int] = {}
        self.take_seconds()

    def take_seconds(self) -> float:
        """Since the last call, of all threads together."""
        before, self._waited = self._waited, dict(self._read())
        waited = (ns - before.get(thread, 0) for thread, ns in self._waited.items())
        return sum(waited) / 1e9

    def _read(self) -> Iterator[tuple[str, int]]:
        for path in self._threads.glob("*/schedstat"):
            try:
                yield path.parent.name, int(path.read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue  # the thread has ended, or this kernel counts nothing

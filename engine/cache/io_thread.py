"""The cache-io thread: restores first, then saves, one queue. It owns the disk tier.

    model thread --save(row, readout)-->  [ restores | saves, bounded by bytes ]  --> DiskTier
                 <--take_results()-----  restored arrays, as far as they could be had in time

Where there is nothing else to do it brings the tier down to its limits and looks for strays, a few
files at a time.
The model thread never waits for a disk. A save that finds the queue full is dropped and counted at
once; a restore has a deadline, after which its result is not wanted any more.
While requests run saves are held, for writing takes processors and the interpreter from them: at
most HELD_SECONDS each, at most HELD_SHARE of the queue.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from engine.cache.disk_index import Row
from engine.cache.disk_tier import DiskTier, SaveOutcome
from engine.cache.record import ArrayBytes, Readout, RecordKey

logger = logging.getLogger(__name__)

_RESTORE, _MAINTAIN, _SAVE, _STOP = range(4)
TIDY_PAUSE_SECONDS = 0.1  # between portions
TIDY_AGAIN_SECONDS = 5.0  # the disk is others' too
SWEEP_AGAIN_SECONDS = 3600.0
HELD_SECONDS = 3.0  # and then written, whatever runs
HELD_SHARE = 1 / 16


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A record to read, and the tokens it must be for."""

    record: RecordKey
    tokens: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """One record of a restore; it can be used before the others are there."""

    request_id: str
    record: RecordKey
    arrays: list[ArrayBytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """A restore has ended, at its end or at the first record that could not be had."""

    request_id: str
    num_records: int
    missing: tuple[RecordKey, ...]
    num_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Saved:
    """What came of a save: whether the record is on disk now, and what left the disk for it."""

    record: RecordKey
    is_persisted: bool
    file_bytes: int
    owners: frozenset[bytes]
    used_at: float
    evicted: tuple[RecordKey, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Trimmed:
    """What left the disk because the tier was above its limits."""

    records: tuple[RecordKey, ...]


Result = Read | Restored | Saved | Trimmed


@dataclasses.dataclass(order=True, slots=True)
class _Job:
    """A save has its record, and the time from when it is not held any more."""

    priority: int
    number: int
    run: Callable[[], None] = dataclasses.field(compare=False)
    record: RecordKey | None = dataclasses.field(default=None, compare=False)
    num_bytes: int = dataclasses.field(default=0, compare=False)
    due_at: float = dataclasses.field(default=0.0, compare=False)


class CacheIO:
    def __init__(
        self, disk: DiskTier, *, max_queued_bytes: int, held_seconds: float = HELD_SECONDS
    ) -> None:
        self.disk = disk  # counters and sizes may be read from any thread
        self.queued_bytes = 0
        self._max_queued_bytes = max_queued_bytes
        self._held_seconds = held_seconds
        self._tidy_at = self._sweep_at = time.monotonic()
        self._jobs: list[_Job] = []
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._results: deque[Result] = deque()
        self._cancelled: set[str] = set()
        self._is_stopping = False
        self._job: _Job | None = None  # that is being done
        self._is_holding = False
        self._thread = threading.Thread(target=self._loop, name="cache-io", daemon=True)
        self._thread.start()

    # --- called from the model thread; none of these waits

    def save(self, row: Row, readout: Readout) -> bool:
        """Queue a record to be written; False when the queue is full and it was dropped."""
        num_bytes = readout.num_bytes
        with self._condition:
            if self._is_stopping or self.queued_bytes + num_bytes > self._max_queued_bytes:
                return False
            self.queued_bytes += num_bytes
            job = self._add(_SAVE, lambda: self._save(row, readout))
            job.record, job.num_bytes = row.record, num_bytes
            job.due_at = time.monotonic() + self._held_seconds
        return True

    def hold_saves(self, is_holding: bool) -> None:
        """Whether requests are running, for which saves wait."""
        if is_holding != self._is_holding:
            with self._condition:
                self._is_holding = is_holding
                self._condition.notify()

    def hurry(self) -> None:
        """Write all that waits now, whatever runs."""
        with self._condition:
            for job in self._jobs:
                job.due_at = 0.0
            self._condition.notify()

    def withdraw(self, records: Collection[RecordKey]) -> list[RecordKey]:
        """Never write what of these waits to be written; those that did."""
        with self._condition:
            withdrawn = [job for job in self._jobs if job.record in records]
            if withdrawn:
                self._jobs = [job for job in self._jobs if job.record not in records]
                heapq.heapify(self._jobs)
                self.queued_bytes -= sum(job.num_bytes for job in withdrawn)
        return [job.record for job in withdrawn if job.record is not None]

    def restore(self, request_id: str, wanted: Sequence[Wanted], *, deadline_at: float) -> None:
        """Read records in order; the result comes out of take_results(). Monotonic deadline."""
        with self._condition:
            self._add(_RESTORE, lambda: self._restore(request_id, wanted, deadline_at))

    def cancel(self, request_id: str) -> None:
        with self._condition:
            self._cancelled.add(request_id)

    def maintain(self, work: Callable[[DiskTier], Any]) -> None:
        """Run something on the disk tier between restores and saves."""
        with self._condition:
            self._add(_MAINTAIN, lambda: work(self.disk))

    def take_results(self) -> list[Result]:
        results = []
        while self._results:
            results.append(result := self._results.popleft())
            if isinstance(result, Restored):
                self._cancelled.discard(result.request_id)
        return results

    @property
    def is_idle(self) -> bool:
        """Nothing is queued or being done."""
        with self._condition:
            return not self._jobs and self._job is None

    @property
    def is_maintaining(self) -> bool:
        """Some of what `maintain` was given is not done."""
        with self._condition:
            jobs = self._jobs if self._job is None else [self._job, *self._jobs]
            return any(job.priority == _MAINTAIN for job in jobs)

    def close(self, *, wait_seconds: float) -> bool:
        """Finish what is queued, at most this long, then stop; whether everything was done."""
        with self._condition:
            self._is_stopping = True
            self._add(_STOP, lambda: None)
        self._thread.join(wait_seconds)
        if self._thread.is_alive():
            return False
        self.disk.close()
        return True

    # --- the thread

    def _add(self, priority: int, run: Callable[[], None]) -> _Job:
        job = _Job(priority, next(self._numbers), run)
        heapq.heappush(self._jobs, job)
        self._condition.notify()
        return job

    def _loop(self) -> None:
        while True:
            job = self._next_job()
            if job.priority == _STOP:
                return
            try:
                job.run()
            except Exception:
                logger.exception("a cache job failed")
            del job  # and the copies that it has, while nothing else is to be done

    def _next_job(self) -> _Job:
        with self._condition:
            self._job = None
            while (seconds := self._pause_seconds()) > 0:
                self._condition.wait(seconds)
            if not self._jobs:
                self._add(_SAVE, self._tidy)
            self._job = heapq.heappop(self._jobs)
            return self._job

    def _pause_seconds(self) -> float:
        """Until the next job may begin, if none comes meanwhile."""
        now = time.monotonic()
        if not self._jobs:
            return self._tidy_at - now
        is_held = self._is_holding and not self._is_stopping and self._jobs[0].priority == _SAVE
        if not is_held or self.queued_bytes > HELD_SHARE * self._max_queued_bytes:
            return 0.0
        return self._jobs[0].due_at - now

    def _tidy(self) -> None:
        is_done = not self._trim() and self._sweep()
        pause = TIDY_AGAIN_SECONDS if is_done else TIDY_PAUSE_SECONDS
        self._tidy_at = time.monotonic() + pause

    def _trim(self) -> bool:
        """Whether the tier has come down; it does not where the disk takes no change."""
        before = self.disk.used_bytes
        if records := self.disk.trim():
            self._results.append(Trimmed(records))
        return self.disk.used_bytes < before

    def _sweep(self) -> bool:
        """Whether there is nothing left to be looked at for now."""
        if (now := time.monotonic()) < self._sweep_at:
            return True
        is_done = self.disk.sweep()
        if is_done:
            self._sweep_at = now + SWEEP_AGAIN_SECONDS
        return is_done

    def _save(self, row: Row, readout: Readout) -> None:
        """Whatever happens, the model thread hears what came of it."""
        outcome = SaveOutcome(False, 0, ())
        try:
            outcome = self.disk.save(row, readout.read())
        finally:
            self._results.append(
                Saved(
                    record=row.record,
                    is_persisted=outcome.is_persisted,
                    file_bytes=outcome.file_bytes,
                    owners=row.owners,
                    used_at=row.used_at,
                    evicted=outcome.evicted,
                )
            )
            with self._condition:
                self.queued_bytes -= readout.num_bytes

    def _restore(self, request_id: str, wanted: Sequence[Wanted], deadline_at: float) -> None:
        started = time.monotonic()
        num_records = num_bytes = 0
        missing: tuple[RecordKey, ...] = ()
        for want in wanted:
            if request_id in self._cancelled or time.monotonic() > deadline_at:
                break
            arrays = self.disk.load(want.record, want.tokens)
            if arrays is None:
                missing = (want.record,)
                break
            self._results.append(Read(request_id, want.record, arrays))
            num_records += 1
            num_bytes += sum(memoryview(part.data).nbytes for part in arrays)
        seconds = time.monotonic() - started
        self._results.append(Restored(request_id, num_records, missing, num_bytes, seconds))

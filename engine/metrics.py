"""The engine's vitals: is it moving, how fast, with what. Written by the model thread, read by the
transport's side thread once a second.
"""

from __future__ import annotations

import collections
import os
import sys
import threading
import time
from collections.abc import Callable

from engine import wire
from engine.model.memory import Memory, MemoryReadings
from engine.stall import StallClock

_RATE_SECONDS = 5.0
_DECOMPRESSED_BYTES_A_SECOND = 2e9


class Rate:
    """Events per second over the last few seconds."""

    def __init__(self) -> None:
        self._counts: collections.deque[tuple[float, int]] = collections.deque()

    def add(self, count: int, *, now: float) -> None:
        if self._counts and now - self._counts[-1][0] < 0.25:
            at, before = self._counts[-1]
            self._counts[-1] = (at, before + count)
        else:
            self._counts.append((now, count))

    def per_second(self, *, now: float) -> float:
        while self._counts and now - self._counts[0][0] > _RATE_SECONDS:
            self._counts.popleft()
        if not self._counts:
            return 0.0
        span = min(_RATE_SECONDS, max(now - self._counts[0][0], 0.25))
        return sum(count for _, count in self._counts) / span


class Vitals:
    def __init__(
        self,
        *,
        engine_name: str,
        memory: Memory,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        stall: StallClock | None = None,
    ):
        self.engine_name = engine_name
        self._memory = memory
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._started_at = wall_clock()
        self.stall = stall or StallClock(clock=clock, waking_seconds=self._waking_seconds)
        self._decoded, self._prefilled = Rate(), Rate()
        self._num_generated = 0
        self._models: tuple[wire.ModelStatus, ...] = ()
        self._rows: tuple[wire.RowStatus, ...] = ()
        self._readings = MemoryReadings()
        self._cache: wire.CacheStatus | None = None
        self._guarded: wire.MemoryStatus | None = None

    def _waking_seconds(self) -> float:
        """macOS compresses in memory what an idle engine has, weights too."""
        if sys.platform != "darwin":
            return 0.0
        return self._readings.active_bytes / _DECOMPRESSED_BYTES_A_SECOND

    def note_progress(self, *, decoded_tokens: int = 0, prefilled_tokens: int = 0) -> None:
        now = self._clock()
        self.stall.note_progress()
        with self._lock:
            self._num_generated += decoded_tokens
            if decoded_tokens:
                self._decoded.add(decoded_tokens, now=now)
            if prefilled_tokens:
                self._prefilled.add(prefilled_tokens, now=now)

    def show(
        self,
        *,
        models: tuple[wire.ModelStatus, ...],
        rows: tuple[wire.RowStatus, ...],
        readings: MemoryReadings,
        cache: wire.CacheStatus,
        guarded: wire.MemoryStatus,
    ) -> None:
        """What the next heartbeats show of models, rows, memory and prefixes."""
        with self._lock:
            self._models, self._rows, self._readings = models, rows, readings
            self._cache, self._guarded = cache, guarded

    def status(self) -> wire.EngineStatus:
        """The heartbeat. One thread besides the model thread."""
        stalled_seconds = self.stall.look()
        with self._lock:
            now = self._clock()
            return wire.EngineStatus(
                engine=self.engine_name,
                pid=os.getpid(),
                started_at=self._started_at,
                beat_at=self._wall_clock(),
                stalled_seconds=stalled_seconds,
                device=self._memory.device,
                active_bytes=self._readings.active_bytes,
                pool_bytes=self._readings.pool_bytes,
                peak_bytes=self._readings.peak_bytes,
                process_bytes=self._readings.process_bytes,
                decode_tokens_per_second=self._decoded.per_second(now=now),
                prefill_tokens_per_second=self._prefilled.per_second(now=now),
                generated_tokens=self._num_generated,
                models=self._models,
                rows=self._rows,
                cache=self._cache,
                memory=self._guarded,
            )

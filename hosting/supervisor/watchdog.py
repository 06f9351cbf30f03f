"""Ends an engine that lives but computes nothing. It judges by heartbeats and knows no requests.

An engine shows two kinds of trouble: no new heartbeat at all (stopped, or its process is stuck), or
heartbeats that say it has work and has not moved (`stalled_seconds`: engine/stall.py counts them).
A look that comes late counts as one look: then it was this process, or Redis, that stood still.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Protocol

from engine import wire
from hosting.engine_client import EngineUnavailable
from hosting.engine_patience import SILENT_END_SECONDS, STALLED_END_SECONDS
from hosting.supervisor.child import Child

FIRST_BEAT_SECONDS = 60.0  # importing MLX on a busy small machine
LOOK_EVERY_SECONDS = 0.5
_LONGEST_LOOK_SECONDS = 1.0


class EngineWatch:
    """Verdicts about one life of one engine process. Pure: the clock is handed in."""

    def __init__(self, *, name: str, pid: int, now: float) -> None:
        self.pid = pid
        self._name = name
        self._beat_at: float | None = None  # the engine's own clock, only compared with itself
        self._looked_at = now
        self._silent_seconds = 0.0

    def verdict(self, engines: list[wire.EngineStatus], *, now: float) -> str | None:
        """Why this engine must be ended, or None."""
        self._silent_seconds += min(now - self._looked_at, _LONGEST_LOOK_SECONDS)
        self._looked_at = now
        status = next(
            (one for one in engines if (one.engine, one.pid) == (self._name, self.pid)), None
        )
        if status is not None and status.beat_at != self._beat_at:
            self._beat_at, self._silent_seconds = status.beat_at, 0.0
        allowed = FIRST_BEAT_SECONDS if self._beat_at is None else SILENT_END_SECONDS
        if self._silent_seconds > allowed:
            return f"no heartbeat for {self._silent_seconds:.0f} s"
        if status is not None and status.stalled_seconds > STALLED_END_SECONDS:
            return f"work but no progress for {status.stalled_seconds:.0f} s"
        return None

    @property
    def is_in_doubt(self) -> bool:
        """Long before the verdict, so that a beat comes in between when the reason passes."""
        return self._silent_seconds > SILENT_END_SECONDS / 2

    def excuse(self, *, now: float) -> None:
        """Nothing could be read, or written, so silence proves nothing: count from now."""
        self._looked_at, self._silent_seconds = now, 0.0


class Engines(Protocol):
    """Where heartbeats are. Both raise EngineUnavailable."""

    def engines(self) -> list[wire.EngineStatus]: ...

    def check_writable(self) -> None: ...


async def watch_engine(child: Child, beats: Engines, say: Callable[[str], None]) -> None:
    """Look twice a second, for ever; SIGKILL on a verdict. Child starts the engine again."""
    name = child.part.engine
    assert name is not None
    watch: EngineWatch | None = None
    while True:
        await asyncio.sleep(LOOK_EVERY_SECONDS)
        if child.pid is None:
            continue
        if watch is None or watch.pid != child.pid:
            watch = EngineWatch(name=name, pid=child.pid, now=time.monotonic())
        try:
            reason = watch.verdict(await asyncio.to_thread(beats.engines), now=time.monotonic())
            if watch.is_in_doubt:  # a full disk takes no heartbeat, and gives the last one
                await asyncio.to_thread(beats.check_writable)
        except (EngineUnavailable, wire.WireError):
            watch.excuse(now=time.monotonic())
            continue
        if reason is not None and child.pid == watch.pid:
            say(f"{child.part.name} shows {reason}; it is ended and started again")
            child.send(signal.SIGKILL)
            watch = None

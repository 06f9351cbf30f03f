"""The memory guard: how full the memory is, what may be loaded, what happened.

CALM -> TIGHT at 85 % of the limit -> CRITICAL at 95 %, and back 5 % lower, so that a reading on the
line does not make it waver. Beside weights that fill most of the limit TIGHT begins when half of
the rest is in use, or all would be served one by one. It does not load, unload, preempt or
measure. Owner: the model thread.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable
from enum import Enum

from engine.wire import Level, MemoryMark

TIGHT_FRACTION, CRITICAL_FRACTION = 0.85, 0.95
_WAY_BACK_FRACTION = 0.05
_WORKING_FRACTION = 0.1  # of the limit: caches and activations of even a small load
LOST_ESTIMATES = "lost estimates"  # counted, no mark on the timeline
_MAX_MARKS = 50
_GIB = 1024**3
_LEVELS = tuple(Level)


class Verdict(Enum):
    FITS = "fits"
    NOT_NOW = "not now"
    NEVER = "never"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    verdict: Verdict
    needed_bytes: int
    limit_bytes: int
    pinned_bytes: int = 0

    @property
    def detail(self) -> str:
        pinned = f", pinned models hold {self.pinned_bytes / _GIB:.1f} GiB of it"
        return (
            f"the weights need {self.needed_bytes / _GIB:.1f} GiB, "
            f"the limit for weights here is {self.limit_bytes / _GIB:.1f} GiB"
            f"{pinned if self.pinned_bytes else ''}; "
            f"{'unpin one, ' if self.pinned_bytes else ''}"
            "use a smaller or a quantised model, or raise the memory limit or the model's own"
        )


class MemoryGuard:
    """`ceiling_bytes` is what the engine started with; `set_limit` changes it while it runs."""

    def __init__(
        self,
        *,
        ceiling_bytes: int,
        is_explicit: bool = False,
        wall_clock: Callable[[], float] = time.time,
    ):
        self._ceiling_bytes = ceiling_bytes
        self._is_ceiling_explicit = is_explicit
        self._wall_clock = wall_clock
        self.weight_bytes = 0  # of what is loaded
        self.limit_bytes = ceiling_bytes
        self.is_limit_explicit = is_explicit
        self.level = Level.CALM
        self.counts: collections.Counter[str] = collections.Counter()
        self.marks: collections.deque[MemoryMark] = collections.deque(maxlen=_MAX_MARKS)

    def set_limit(self, limit_bytes: int | None) -> bool:
        """None: what the engine started with. Whether that changes anything."""
        before = self.limit_bytes
        self.limit_bytes = limit_bytes or self._ceiling_bytes
        self.is_limit_explicit = bool(limit_bytes) or self._is_ceiling_explicit
        if self.limit_bytes != before:
            self.note("limit", num_bytes=self.limit_bytes)
        return self.limit_bytes != before

    @property
    def tight_bytes(self) -> int:
        half_filled = self.weight_bytes + self._rest_bytes // 2
        return max(int(self.limit_bytes * TIGHT_FRACTION), min(half_filled, self.critical_bytes))

    @property
    def critical_bytes(self) -> int:
        return int(self.limit_bytes * CRITICAL_FRACTION)

    def observe(self, used_bytes: int) -> Level:
        """The level at this reading. It rises at once, and falls a little lower than it rose."""
        way_back = min(int(self.limit_bytes * _WAY_BACK_FRACTION), self._rest_bytes // 4)
        rising, falling = self._level_at(used_bytes), self._level_at(used_bytes + way_back)
        now = _LEVELS.index(self.level)
        self.level = _LEVELS[max(rising, min(now, falling))]
        return self.level

    @property
    def _rest_bytes(self) -> int:
        return max(0, self.limit_bytes - self.weight_bytes)

    def _level_at(self, used_bytes: int) -> int:
        return (used_bytes >= self.tight_bytes) + (used_bytes >= self.critical_bytes)

    @property
    def loadable_bytes(self) -> int:
        """What may be in use when a model has been loaded."""
        return int(self.limit_bytes * (1 - _WORKING_FRACTION))

    def assess_load(
        self,
        *,
        needed_bytes: int,
        active_bytes: int,
        ceiling_bytes: int | None = None,
        pinned_bytes: int = 0,
    ) -> Assessment:
        """May weights of `needed_bytes`, of a model with this ceiling, be loaded beside
        `active_bytes` in use, of which `pinned_bytes` will never leave?"""
        limit = self.loadable_bytes
        most = min(limit, self.limit_bytes if ceiling_bytes is None else ceiling_bytes)
        verdict = Verdict.FITS
        if needed_bytes > most or needed_bytes + pinned_bytes > limit:
            verdict = Verdict.NEVER
        elif needed_bytes + active_bytes > limit:
            verdict = Verdict.NOT_NOW
        return Assessment(
            verdict=verdict,
            needed_bytes=needed_bytes,
            limit_bytes=most,
            pinned_bytes=pinned_bytes,
        )

    def note(self, kind: str, *, model: str = "", num_bytes: int = 0) -> None:
        """Something that changed the memory: counted, and marked on the timeline."""
        self.counts[kind] += 1
        self.marks.append(
            MemoryMark(kind=kind, at=self._wall_clock(), model=model, num_bytes=num_bytes)
        )

"""The memory guard: refuses what can never fit, says what must go for what could.

It decides about models before they are loaded. It does not load, unload or measure.
"""

from __future__ import annotations

import dataclasses
from enum import Enum

_WORKING_FRACTION = 0.1  # of the ceiling: caches and activations of even a small load
_GIB = 1024**3


class Verdict(Enum):
    FITS = "fits"
    NOT_NOW = "not now"
    NEVER = "never"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    verdict: Verdict
    needed_bytes: int
    limit_bytes: int

    @property
    def detail(self) -> str:
        return (
            f"the weights need {self.needed_bytes / _GIB:.1f} GiB, "
            f"the limit for weights here is {self.limit_bytes / _GIB:.1f} GiB; "
            "use a smaller or a quantised model, or raise HEARTH_MEMORY_LIMIT_GB"
        )


class MemoryGuard:
    def __init__(self, *, ceiling_bytes: int):
        self.ceiling_bytes = ceiling_bytes

    def assess_load(self, *, needed_bytes: int, active_bytes: int) -> Assessment:
        """May weights of `needed_bytes` be loaded beside `active_bytes` in use?"""
        limit = int(self.ceiling_bytes * (1 - _WORKING_FRACTION))
        verdict = Verdict.FITS
        if needed_bytes > limit:
            verdict = Verdict.NEVER
        elif needed_bytes + active_bytes > limit:
            verdict = Verdict.NOT_NOW
        return Assessment(verdict=verdict, needed_bytes=needed_bytes, limit_bytes=limit)

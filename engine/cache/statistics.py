"""Counters of the prefix cache, from the engine's start; report.py makes a status of them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict

from engine.cache.plan import Miss


@dataclasses.dataclass(slots=True)
class ModelCounters:
    """`hit_*_tokens` were really skipped: counted when a row was restored, not when planned."""

    num_lookups: int = 0
    looked_up_tokens: int = 0
    hit_memory_tokens: int = 0
    hit_disk_tokens: int = 0
    misses: Counter[str] = dataclasses.field(default_factory=Counter)
    missed_tokens: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def hit_tokens(self) -> int:
        return self.hit_memory_tokens + self.hit_disk_tokens

    def count(self, *, asked_tokens: int, hit_tokens: int, disk_tokens: int, miss: Miss) -> None:
        self.num_lookups += 1
        self.looked_up_tokens += asked_tokens
        self.hit_disk_tokens += disk_tokens
        self.hit_memory_tokens += hit_tokens - disk_tokens
        self.misses[miss.value] += 1
        self.missed_tokens[miss.value] += asked_tokens - hit_tokens

    def count_late(self, *, gained_tokens: int) -> None:
        """These were counted as missed, but the disk brought them before they were computed."""
        self.hit_disk_tokens += gained_tokens
        self.missed_tokens[Miss.LATE.value] -= gained_tokens


@dataclasses.dataclass(slots=True)
class CacheStatistics:
    """`saved` was handed to the writer; `persisted` is on disk; what was saved and is neither
    persisted nor dropped is still queued."""

    models: defaultdict[str, ModelCounters] = dataclasses.field(
        default_factory=lambda: defaultdict(ModelCounters)
    )
    num_saved: int = 0
    num_persisted: int = 0
    num_dropped: int = 0
    num_restores: int = 0
    num_late_restores: int = 0
    restore_seconds: float = 0.0
    slowest_restore_seconds: float = 0.0

    def count_restore(self, seconds: float, *, is_late: bool) -> None:
        self.num_restores += 1
        self.num_late_restores += is_late
        self.restore_seconds += seconds
        self.slowest_restore_seconds = max(self.slowest_restore_seconds, seconds)

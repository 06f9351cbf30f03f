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

    def count(self, *, asked_tokens: int, hit_tokens: int, disk_tokens: int, miss: Miss) -> None:
        """But for what was missed."""
        self.num_lookups += 1
        self.looked_up_tokens += asked_tokens
        self.hit_disk_tokens += disk_tokens
        self.hit_memory_tokens += hit_tokens - disk_tokens
        self.misses[miss.value] += 1


@dataclasses.dataclass(slots=True)
class _Race:
    """A row computes what it missed while the disk still reads it."""

    model: str
    miss: Miss
    missed_tokens: int


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
    _races: dict[str, _Race] = dataclasses.field(default_factory=dict)  # by request_id

    def count_fault(self, model: str) -> None:
        """The cache itself has failed."""
        self.models[model].misses[Miss.FAULT.value] += 1

    def count_missed(
        self, model: str, miss: Miss, num_tokens: int, *, request_id: str, is_racing: bool
    ) -> None:
        """`is_racing`: the disk may still bring them; they are counted with `end_race`, for a
        counter never goes back."""
        self.end_race(request_id)
        if is_racing:
            self._races[request_id] = _Race(model, miss, num_tokens)
        else:
            self.models[model].missed_tokens[miss.value] += num_tokens

    def count_late(self, request_id: str, num_tokens: int) -> None:
        """The disk has brought these before they were computed."""
        race = self._races[request_id]
        race.missed_tokens -= num_tokens
        self.models[race.model].hit_disk_tokens += num_tokens

    def end_race(self, request_id: str) -> None:
        """What it missed it has computed."""
        race = self._races.pop(request_id, None)
        if race is not None:
            self.models[race.model].missed_tokens[race.miss.value] += race.missed_tokens

    def count_restore(self, seconds: float, *, is_late: bool) -> None:
        self.num_restores += 1
        self.num_late_restores += is_late
        self.restore_seconds += seconds
        self.slowest_restore_seconds = max(self.slowest_restore_seconds, seconds)

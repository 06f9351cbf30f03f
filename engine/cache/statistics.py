"""Counters of the prefix cache, for the admin and /metrics."""

from __future__ import annotations

import dataclasses
from collections import Counter


@dataclasses.dataclass(slots=True)
class CacheStatistics:
    """`hit_*_tokens` were really skipped: counted when a row was restored, not when planned.

    `saved` was handed to the writer; `persisted` is on disk; what was saved and is neither
    persisted nor dropped is still queued.
    """

    num_lookups: int = 0
    looked_up_tokens: int = 0
    hit_memory_tokens: int = 0
    hit_disk_tokens: int = 0
    misses: Counter[str] = dataclasses.field(default_factory=Counter)
    num_saved: int = 0
    num_persisted: int = 0
    num_dropped: int = 0
    num_restores: int = 0
    restore_seconds: float = 0.0
    restored_bytes: int = 0
    num_late_restores: int = 0

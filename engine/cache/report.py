"""The prefix cache's figures as the heartbeat carries them."""

from __future__ import annotations

from engine import wire
from engine.cache.io_thread import CacheIO
from engine.cache.prefix import PrefixCache
from engine.cache.statistics import CacheStatistics


def cache_status(cache: PrefixCache) -> wire.CacheStatus:
    """A few times a second; model thread."""
    memory = cache.memory
    return wire.CacheStatus(
        memory=wire.MemoryTierStatus(
            budget_bytes=memory.budget_bytes,
            used_bytes=memory.used_bytes,
            pinned_bytes=memory.pinned_bytes,
            num_records=len(memory),
            num_evicted=memory.num_evicted,
        ),
        disk=_disk_status(cache.io, cache) if cache.io is not None else None,
        models=tuple(_model_status(cache, model) for model in sorted(_models(cache))),
    )


def _models(cache: PrefixCache) -> set[str]:
    return {*cache.statistics.models, *cache.nodes.disk_records}


def _model_status(cache: PrefixCache, model: str) -> wire.ModelCacheStatus:
    counters = cache.statistics.models[model]
    return wire.ModelCacheStatus(
        model=model,
        num_lookups=counters.num_lookups,
        looked_up_tokens=counters.looked_up_tokens,
        hit_memory_tokens=counters.hit_memory_tokens,
        hit_disk_tokens=counters.hit_disk_tokens,
        misses=dict(counters.misses),
        missed_tokens=dict(counters.missed_tokens),
        memory_bytes=cache.memory.model_bytes[model],
        disk_bytes=cache.nodes.disk_bytes[model],
    )


def _disk_status(io: CacheIO, cache: PrefixCache) -> wire.DiskTierStatus:
    disk, counters, statistics = io.disk, io.disk.counters, cache.statistics
    return wire.DiskTierStatus(
        budget_bytes=disk.limits.budget_bytes,
        used_bytes=disk.used_bytes,
        num_records=sum(cache.nodes.disk_records.values()),
        num_evicted=counters.num_evicted,
        num_saved=statistics.num_saved,
        num_persisted=statistics.num_persisted,
        num_dropped=statistics.num_dropped,
        num_queued=_num_queued(statistics),
        queued_bytes=io.queued_bytes,
        written_bytes=counters.written_bytes,
        written_today_bytes=disk.written_today_bytes,
        daily_write_bytes=disk.limits.daily_write_bytes,
        read_bytes=counters.read_bytes,
        num_restores=statistics.num_restores,
        num_late_restores=statistics.num_late_restores,
        restore_seconds=statistics.restore_seconds,
        slowest_restore_seconds=statistics.slowest_restore_seconds,
        num_corrupt=counters.num_corrupt,
        num_read_errors=counters.num_read_errors,
        num_write_errors=counters.num_write_errors,
        last_error=counters.last_error,
        hindrance=counters.hindrance,
    )


def _num_queued(statistics: CacheStatistics) -> int:
    return statistics.num_saved - statistics.num_persisted - statistics.num_dropped

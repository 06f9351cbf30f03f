"""The prefix cache for Prometheus, as the heartbeats tell it: by tier and by model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import Metric

from engine import wire
from hosting.metric_families import counter, gauge

_TIER_EVENTS = (
    "evicted",
    "saved",
    "persisted",
    "dropped",
    "corrupt",
    "read_errors",
    "write_errors",
)
_NO_MISS = "none"  # all was there but the token that is always computed


def cache_metrics(engines: list[wire.EngineStatus]) -> Iterator[Metric]:
    """What the prefix cache holds and has saved, by tier and by model."""
    caches = [(beat.engine, beat.cache) for beat in engines if beat.cache]
    tiers = [
        (engine, name, tier)
        for engine, cache in caches
        for name, tier in (("memory", cache.memory), ("disk", cache.disk))
        if tier is not None
    ]
    models = [(engine, model) for engine, cache in caches for model in cache.models]
    disks = [(engine, cache.disk) for engine, cache in caches if cache.disk]
    yield from _tier_metrics(tiers)
    yield from _model_metrics(models)
    yield from _disk_metrics(disks)


def _tier_metrics(tiers: list[tuple[str, str, Any]]) -> Iterator[Metric]:
    for what, text in (("used", "Bytes of prefixes."), ("budget", "Bytes allowed.")):
        samples = (((e, name), getattr(tier, f"{what}_bytes")) for e, name, tier in tiers)
        yield gauge(f"cache_{what}_bytes", text, ["engine", "tier"], samples)
    yield gauge(
        "cache_pinned_bytes",
        "Bytes of live rows and published prompts, which stay.",
        ["engine"],
        (((e,), tier.pinned_bytes) for e, name, tier in tiers if name == "memory"),
    )
    yield counter(
        "cache_records",
        "Records by what happened to them.",
        ["engine", "tier", "event"],
        (
            ((engine, name, event), getattr(tier, f"num_{event}"))
            for engine, name, tier in tiers
            for event in _TIER_EVENTS
            if hasattr(tier, f"num_{event}")
        ),
    )


def _model_metrics(models: list[tuple[str, wire.ModelCacheStatus]]) -> Iterator[Metric]:
    def count(name: str, text: str, read: Callable[[wire.ModelCacheStatus], float]) -> Metric:
        samples = (((engine, one.model), read(one)) for engine, one in models)
        return counter(name, text, ["engine", "model"], samples)

    yield count("cache_lookups", "Prompts looked up.", lambda one: one.num_lookups)
    yield count("cache_looked_up_tokens", "Prompt tokens.", lambda one: one.looked_up_tokens)
    yield counter(
        "cache_hit_tokens",
        "Prompt tokens that were not computed, by the tier they came from.",
        ["engine", "model", "tier"],
        (
            ((engine, one.model, tier), getattr(one, f"hit_{tier}_tokens"))
            for engine, one in models
            for tier in wire.CacheTier
        ),
    )
    for name, field, text in (
        ("cache_misses", "misses", "Prompts of which a part was computed, by reason."),
        ("cache_missed_tokens", "missed_tokens", "Prompt tokens that were computed, by reason."),
    ):
        samples = (
            ((engine, one.model, reason), number)
            for engine, one in models
            for reason, number in getattr(one, field).items()
            if reason != _NO_MISS
        )
        yield counter(name, text, ["engine", "model", "reason"], samples)
    yield gauge(
        "cache_model_bytes",
        "Bytes of a model's prefixes.",
        ["engine", "model", "tier"],
        (
            ((engine, one.model, tier), getattr(one, f"{tier}_bytes"))
            for engine, one in models
            for tier in wire.CacheTier
        ),
    )


def _disk_metrics(disks: list[tuple[str, wire.DiskTierStatus]]) -> Iterator[Metric]:
    counters: tuple[tuple[str, str, str], ...] = (
        ("written_bytes", "written_bytes", "Bytes written to the disk tier."),
        ("read_bytes", "read_bytes", "Bytes read from the disk tier."),
        ("restores", "num_restores", "Prefixes read from disk."),
        ("late_restores", "num_late_restores", "Of those, too late to be of full use."),
        ("restore_seconds", "restore_seconds", "Time that restores took."),
    )
    for name, field, text in counters:
        samples = (((engine,), getattr(disk, field)) for engine, disk in disks)
        yield counter(f"cache_{name}", text, ["engine"], samples)
    for name, text in (
        ("written_today_bytes", "Bytes written on this UTC day."),
        ("daily_write_bytes", "Bytes that may be written on one day."),
        ("queued_bytes", "Bytes that wait to be written."),
    ):
        samples = (((engine,), getattr(disk, name)) for engine, disk in disks)
        yield gauge(f"cache_{name}", text, ["engine"], samples)

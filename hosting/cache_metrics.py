"""The memory guard and the prefix cache for Prometheus, as the heartbeats tell them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from engine import wire

_MEMORY_BYTES = ("limit", "tight", "critical", "used", "weight", "row", "tier", "pool", "process")
_MEMORY_EVENTS = ("loads", "unloads", "preempted", "refused", "failed")
_TIER_EVENTS = (
    "evicted",
    "saved",
    "persisted",
    "dropped",
    "corrupt",
    "read_errors",
    "write_errors",
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sample:
    labels: tuple[str, ...]
    value: float


def guard_metrics(engines: list[wire.EngineStatus]) -> Iterator[Metric]:
    """What the memory guard sees and has done."""
    guarded = [(beat.engine, beat.memory) for beat in engines if beat.memory]
    yield _gauge(
        "hearth_guard_bytes",
        "Memory by part, and the limits it is held to.",
        ["engine", "part"],
        (
            _Sample((engine, part), getattr(memory, f"{part}_bytes"))
            for engine, memory in guarded
            for part in _MEMORY_BYTES
        ),
    )
    yield _gauge(
        "hearth_guard_level",
        "1 at the level that the guard is at.",
        ["engine", "level"],
        (
            _Sample((engine, level), level == memory.level)
            for engine, memory in guarded
            for level in wire.Level
        ),
    )
    yield _counter(
        "hearth_guard_events",
        "Models loaded and unloaded, rows preempted, requests refused and failed.",
        ["engine", "event"],
        (
            _Sample((engine, event), getattr(memory, f"num_{event}"))
            for engine, memory in guarded
            for event in _MEMORY_EVENTS
        ),
    )


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
        samples = (_Sample((e, name), getattr(tier, f"{what}_bytes")) for e, name, tier in tiers)
        yield _gauge(f"hearth_cache_{what}_bytes", text, ["engine", "tier"], samples)
    yield _counter(
        "hearth_cache_records",
        "Records by what happened to them.",
        ["engine", "tier", "event"],
        (
            _Sample((engine, name, event), getattr(tier, f"num_{event}"))
            for engine, name, tier in tiers
            for event in _TIER_EVENTS
            if hasattr(tier, f"num_{event}")
        ),
    )


def _model_metrics(models: list[tuple[str, wire.ModelCacheStatus]]) -> Iterator[Metric]:
    def counter(name: str, text: str, read: Callable[[wire.ModelCacheStatus], float]) -> Metric:
        samples = (_Sample((engine, one.model), read(one)) for engine, one in models)
        return _counter(name, text, ["engine", "model"], samples)

    yield counter("hearth_cache_lookups", "Prompts looked up.", lambda one: one.num_lookups)
    yield counter(
        "hearth_cache_looked_up_tokens", "Prompt tokens.", lambda one: one.looked_up_tokens
    )
    yield _counter(
        "hearth_cache_hit_tokens",
        "Prompt tokens that were not computed, by the tier they came from.",
        ["engine", "model", "tier"],
        (
            _Sample((engine, one.model, tier), getattr(one, f"hit_{tier}_tokens"))
            for engine, one in models
            for tier in wire.CacheTier
        ),
    )
    yield _counter(
        "hearth_cache_missed_tokens",
        "Prompt tokens that were computed, by reason.",
        ["engine", "model", "reason"],
        (
            _Sample((engine, one.model, reason), tokens)
            for engine, one in models
            for reason, tokens in one.missed_tokens.items()
        ),
    )
    yield _gauge(
        "hearth_cache_model_bytes",
        "Bytes of a model's prefixes.",
        ["engine", "model", "tier"],
        (
            _Sample((engine, one.model, tier), getattr(one, f"{tier}_bytes"))
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
        samples = (_Sample((engine,), getattr(disk, field)) for engine, disk in disks)
        yield _counter(f"hearth_cache_{name}", text, ["engine"], samples)
    for name, text in (
        ("written_today_bytes", "Bytes written on this UTC day."),
        ("daily_write_bytes", "Bytes that may be written on one day."),
        ("queued_bytes", "Bytes that wait to be written."),
    ):
        samples = (_Sample((engine,), getattr(disk, name)) for engine, disk in disks)
        yield _gauge(f"hearth_cache_{name}", text, ["engine"], samples)


def _gauge(name: str, text: str, labels: list[str], samples: Iterable[_Sample]) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def _counter(name: str, text: str, labels: list[str], samples: Iterable[_Sample]) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: Any, samples: Iterable[_Sample]) -> Metric:
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    metric: Metric = family
    return metric

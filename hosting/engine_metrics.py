"""The engines for Prometheus, as their heartbeats tell them: is it moving, how full is it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from engine import wire
from hosting.metric_families import counter, gauge
from hosting.readiness import beat_age_seconds

_MEMORY_KINDS = ("active", "pool", "peak", "process")
_GUARD_PARTS = ("limit", "tight", "critical", "used", "weight", "row", "tier", "pool")
_GUARD_PARTS += ("process", "others")
_GUARD_EVENTS = ("loads", "unloads", "preempted", "refused", "failed", "lost_estimates")


def engine_metrics(engines: list[wire.EngineStatus]) -> Iterator[Metric]:
    now = time.time()
    for name, text, read in (
        (
            "heartbeat_age_seconds",
            "Since the last heartbeat.",
            lambda e: beat_age_seconds(e, now=now),
        ),
        ("stalled_seconds", "With work and without progress.", lambda e: e.stalled_seconds),
        ("decode_tokens_per_second", "Decode speed.", lambda e: e.decode_tokens_per_second),
        ("prefill_tokens_per_second", "Prefill speed.", lambda e: e.prefill_tokens_per_second),
    ):
        samples = [((one.engine,), read(one)) for one in engines]
        yield gauge(f"engine_{name}", text, ["engine"], samples)
    yield counter(
        "engine_generated_tokens",
        "Tokens since the engine's start.",
        ["engine"],
        (((one.engine,), one.generated_tokens) for one in engines),
    )
    yield gauge(
        "engine_memory_bytes",
        "Memory by kind.",
        ["engine", "kind"],
        (
            ((one.engine, kind), getattr(one, f"{kind}_bytes"))
            for one in engines
            for kind in _MEMORY_KINDS
        ),
    )
    yield gauge(
        "engine_rows",
        "Live requests by state.",
        ["engine", "model", "state"],
        (
            ((one.engine, *kind), count)
            for one in engines
            for kind, count in Counter((row.model, row.state) for row in one.rows).items()
        ),
    )
    yield from _guard_metrics(engines)


def _guard_metrics(engines: list[wire.EngineStatus]) -> Iterator[Metric]:
    """What the memory guard sees and has done."""
    guarded = [(beat.engine, beat.memory) for beat in engines if beat.memory]
    yield gauge(
        "guard_bytes",
        "Memory by part, what other programs use, and the limits it is held to.",
        ["engine", "part"],
        (
            ((engine, part), getattr(memory, f"{part}_bytes"))
            for engine, memory in guarded
            for part in _GUARD_PARTS
        ),
    )
    yield gauge(
        "guard_level",
        "1 at the level that the guard is at.",
        ["engine", "level"],
        (
            ((engine, level), level == memory.level)
            for engine, memory in guarded
            for level in wire.Level
        ),
    )
    yield counter(
        "guard_events",
        "Loads, unloads, rows preempted, requests refused and failed, learned estimates lost.",
        ["engine", "event"],
        (
            ((engine, event), getattr(memory, f"num_{event}"))
            for engine, memory in guarded
            for event in _GUARD_EVENTS
        ),
    )

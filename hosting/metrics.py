"""The service in numbers for Prometheus, read from database and heartbeats at each scrape."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from django.db.models import Count
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine import wire
from hosting.cache_metrics import cache_metrics, guard_metrics
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation
from hosting.readiness import beat_age_seconds


def exposition() -> bytes:
    """All metrics in Prometheus' text form."""
    registry = CollectorRegistry()
    registry.register(_Service())
    return generate_latest(registry)


class _Service(Collector):
    def describe(self) -> list[Metric]:
        return []  # registering must not read anything

    def collect(self) -> Iterator[Metric]:
        yield _generations()
        try:
            client = get_client()
            waiting = Counter(request.model for request in client.waiting())
            engines = client.engines()
        except EngineUnavailable:
            yield GaugeMetricFamily("hearth_redis_up", "1 while Redis answers.", value=0)
            return
        yield GaugeMetricFamily("hearth_redis_up", "1 while Redis answers.", value=1)
        yield _gauge("hearth_queue_length", "Requests that wait for a row.", ["model"], waiting)
        yield GaugeMetricFamily("hearth_engines", "Engines that beat.", value=len(engines))
        yield from _engine_metrics(engines)
        yield from guard_metrics(engines)
        yield from cache_metrics(engines)


def _generations() -> Metric:
    counts = Generation.objects.order_by().values_list("state").annotate(Count("id"))
    by_state = dict.fromkeys(Generation.State.values, 0) | dict(counts)
    return _gauge("hearth_generations", "Stored generations by state.", ["state"], by_state)


def _gauge(name: str, text: str, labels: list[str], values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def _engine_metrics(engines: list[wire.EngineStatus]) -> Iterator[Metric]:
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
        family = GaugeMetricFamily(f"hearth_engine_{name}", text, labels=["engine"])
        for engine in engines:
            family.add_metric([engine.engine], read(engine))
        yield family
    yield _generated_tokens(engines)
    yield _memory(engines)
    yield _rows(engines)


def _generated_tokens(engines: list[wire.EngineStatus]) -> Metric:
    family = CounterMetricFamily(
        "hearth_engine_generated_tokens", "Tokens since the engine's start.", labels=["engine"]
    )
    for engine in engines:
        family.add_metric([engine.engine], engine.generated_tokens)
    return family


def _memory(engines: list[wire.EngineStatus]) -> Metric:
    family = GaugeMetricFamily(
        "hearth_engine_memory_bytes", "Memory by kind.", labels=["engine", "kind"]
    )
    for engine in engines:
        family.add_metric([engine.engine, "active"], engine.active_bytes)
        family.add_metric([engine.engine, "pool"], engine.pool_bytes)
        family.add_metric([engine.engine, "peak"], engine.peak_bytes)
        family.add_metric([engine.engine, "process"], engine.process_bytes)
    return family


def _rows(engines: list[wire.EngineStatus]) -> Metric:
    family = GaugeMetricFamily(
        "hearth_engine_rows", "Live requests by state.", labels=["engine", "model", "state"]
    )
    for engine in engines:
        for (model, state), count in Counter((row.model, row.state) for row in engine.rows).items():
            family.add_metric([engine.engine, model, state], count)
    return family

"""The service in numbers for Prometheus, read from database and heartbeats at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.db import DatabaseError
from django.db.models import Count
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hosting.cache_metrics import cache_metrics
from hosting.engine_client import EngineUnavailable, get_client
from hosting.engine_metrics import engine_metrics
from hosting.metric_families import gauge, number
from hosting.models import Generation


def exposition() -> bytes:
    """All metrics in Prometheus' text form."""
    registry = CollectorRegistry()
    registry.register(_Service())
    return generate_latest(registry)


class _Service(Collector):
    def describe(self) -> list[Metric]:
        return []  # registering must not read anything

    def collect(self) -> Iterator[Metric]:
        yield from _database_metrics()
        try:
            client = get_client()
            waiting = Counter(request.model for request in client.waiting())
            engines = client.engines()
        except EngineUnavailable:
            yield number("redis_up", "1 while Redis answers.", 0)
            return
        yield number("redis_up", "1 while Redis answers.", 1)
        yield _by_name("queue_length", "Requests that wait for a row.", "model", waiting)
        yield number("engines", "Engines that beat.", len(engines))
        yield from engine_metrics(engines)
        yield from cache_metrics(engines)


def _database_metrics() -> Iterator[Metric]:
    counts = Generation.objects.order_by().values_list("state").annotate(Count("id"))
    try:
        by_state = dict.fromkeys(Generation.State.values, 0) | dict(counts)
    except DatabaseError:
        yield number("database_up", "1 while the database answers.", 0)
        return
    yield number("database_up", "1 while the database answers.", 1)
    yield _by_name("generations", "Stored generations by state.", "state", by_state)


def _by_name(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    return gauge(name, text, [label], (((one,), value) for one, value in values.items()))

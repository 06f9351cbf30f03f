"""Families of Prometheus, each made of its samples at once: labels and a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Samples = Iterable[tuple[tuple[str, ...], float]]


def gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(f"hearth_{name}", text, labels=labels), samples)


def counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(f"hearth_{name}", text, labels=labels), samples)


def number(name: str, text: str, value: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(f"hearth_{name}", text, value=value)


def _filled(family: Any, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric(labels, value)
    metric: Metric = family
    return metric

"""What the instruments draw: a history as plots of named lines. Pure; how it looks plots.js knows.

A plot's `kind` is lines, stack (areas on top of each other) or bars (each slot's count). Its unit
says how numbers are written. `limits` are lines that should not be crossed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from hosting.actions.history import History
from hosting.admin.cache_figures import MISS_LABELS

Values = list[float | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    label: str
    values: Values
    tone: int  # which of the theme's colours for data


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    id: str
    title: str
    unit: str
    kind: str
    series: Sequence[Series]
    limits: Sequence[Series] = ()
    has_marks: bool = False


def live_plots(history: History, model: str) -> list[Plot]:
    return [
        Plot(
            id="speed",
            title="Speed",
            unit="tokens_per_second",
            kind="lines",
            series=[
                Series(label="Writing", values=history.gauges("decode_tokens_per_second"), tone=1),
                Series(label="Reading", values=history.gauges("prefill_tokens_per_second"), tone=2),
            ],
        ),
        Plot(
            id="requests",
            title="Requests",
            unit="count",
            kind="stack",
            series=[
                Series(label="Running", values=history.gauges("num_running"), tone=1),
                Series(label="Waiting", values=history.gauges("num_waiting"), tone=4),
            ],
        ),
    ]


def memory_plots(history: History, model: str) -> list[Plot]:
    memory = _named(history.gauges, "memory_{}_bytes")
    parts = [("Weights", "weight"), ("Rows", "row"), ("Prefix cache", "tier"), ("Pool", "pool")]
    limits = [("Limit", "limit"), ("Tight", "tight"), ("Critical", "critical")]
    process = [
        Series(label="Process", values=memory("process"), tone=3),
        Series(label="Used, highest", values=history.gauges("memory_used_bytes_peak"), tone=1),
    ]
    return [
        Plot(
            id="memory",
            title="Memory of the device",
            unit="bytes",
            kind="stack",
            series=[
                Series(label=label, values=memory(name), tone=tone)
                for tone, (label, name) in enumerate(parts, start=1)
            ],
            limits=[
                Series(label=label, values=_known(memory(name)), tone=tone)
                for tone, (label, name) in enumerate(limits, start=1)
            ],
            has_marks=True,
        ),
        Plot(id="process", title="Process", unit="bytes", kind="lines", series=process),
    ]


def cache_plots(history: History, model: str) -> list[Plot]:
    """Of one model, or of all. Restores and writes belong to no model: they are all models'."""
    tokens = _per_model(history, model)
    looked_up = tokens("looked_up_tokens")
    memory, disk = tokens("hit_memory_tokens"), tokens("hit_disk_tokens")
    computed = _combine(lambda all_, *hits: max(0.0, all_ - sum(hits)), looked_up, memory, disk)
    return [
        Plot(
            id="hit-rate",
            title="Hit rate",
            unit="percent",
            kind="lines",
            series=[
                Series(label="Memory and disk", values=_share(looked_up, memory, disk), tone=1),
                Series(label="Disk alone", values=_share(looked_up, disk), tone=2),
            ],
        ),
        Plot(
            id="tokens",
            title="Prompt tokens",
            unit="count",
            kind="bars",
            series=[
                Series(label="From memory", values=memory, tone=1),
                Series(label="From disk", values=disk, tone=2),
                Series(label="Computed", values=computed, tone=4),
            ],
        ),
        _reasons(tokens),
        *_tiers(history, model),
        _restores(history),
        _writer(history),
        _written(history),
        _evictions(history),
    ]


def _reasons(tokens: Callable[[str], Values]) -> Plot:
    return Plot(
        id="misses",
        title="Tokens computed, by reason",
        unit="count",
        kind="bars",
        series=[
            Series(label=label, values=tokens(f"missed_tokens_{reason}"), tone=tone)
            for tone, (reason, label) in enumerate(MISS_LABELS.items(), start=1)
        ],
    )


def _tiers(history: History, model: str) -> list[Plot]:
    if model:
        memory, disk = (history.gauges(f"{tier}_bytes@{model}") for tier in ("memory", "disk"))
    else:
        memory, disk = history.gauges("tier_used_bytes"), history.gauges("disk_used_bytes")
    return [
        Plot(
            id="memory-tier",
            title="Memory tier",
            unit="bytes",
            kind="stack",
            series=[Series(label="Used", values=memory, tone=1)],
            limits=[Series(label="Budget", values=history.gauges("tier_budget_bytes"), tone=1)],
        ),
        Plot(
            id="disk-tier",
            title="Disk tier",
            unit="bytes",
            kind="stack",
            series=[Series(label="Used", values=disk, tone=2)],
            limits=[Series(label="Budget", values=history.gauges("disk_budget_bytes"), tone=1)],
        ),
    ]


def _restores(history: History) -> Plot:
    disk = _named(history.counts, "disk_{}")
    mean = _combine(
        lambda seconds, count: seconds / count if count else None,
        disk("restore_seconds"),
        disk("num_restores"),
    )
    return Plot(
        id="restores",
        title="Restoring from disk, on average",
        unit="seconds",
        kind="lines",
        series=[Series(label="Time", values=mean, tone=2)],
    )


def _writer(history: History) -> Plot:
    disk = _named(history.counts, "disk_num_{}")
    return Plot(
        id="writer",
        title="Records for the disk",
        unit="count",
        kind="bars",
        series=[
            Series(label="Persisted", values=disk("persisted"), tone=2),
            Series(label="Dropped", values=disk("dropped"), tone=5),
        ],
    )


def _written(history: History) -> Plot:
    disk = _named(history.counts, "disk_{}_bytes")
    return Plot(
        id="traffic",
        title="Disk traffic",
        unit="bytes",
        kind="bars",
        series=[
            Series(label="Written", values=disk("written"), tone=2),
            Series(label="Read", values=disk("read"), tone=1),
        ],
    )


def _evictions(history: History) -> Plot:
    return Plot(
        id="evictions",
        title="Evicted records",
        unit="count",
        kind="bars",
        series=[
            Series(label="Memory", values=history.counts("tier_num_evicted"), tone=1),
            Series(label="Disk", values=history.counts("disk_num_evicted"), tone=2),
        ],
    )


def _named(values: Callable[[str], Values], pattern: str) -> Callable[[str], Values]:
    return lambda name: values(pattern.format(name))


def _per_model(history: History, model: str) -> Callable[[str], Values]:
    """Reads a count of this model; with "" the sum of all models'."""
    if model:
        return lambda name: history.counts(f"{name}@{model}")
    names = sorted({name for one in history.readings if one for name in one.counts})

    def total(name: str) -> Values:
        every = [history.counts(one) for one in names if one.startswith(f"{name}@")]
        return _combine(lambda *values: sum(values), history.counts(""), *every)

    return total


def _share(looked_up: Values, *hits: Values) -> Values:
    return _combine(
        lambda all_, *found: 100 * sum(found) / all_ if all_ else None, looked_up, *hits
    )


def _combine(function: Callable[..., float | None], *columns: Values) -> Values:
    """Slot by slot; where nothing was read there is nothing."""
    return [
        None if values[0] is None else function(*(value or 0.0 for value in values))
        for values in zip(*columns, strict=True)
    ]


def _known(values: Values) -> Values:
    """A limit of 0 is one that is not known."""
    return [value or None for value in values]

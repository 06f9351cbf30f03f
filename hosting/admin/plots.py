"""What the instruments draw of an engine's history. Pure; how it looks plots.js knows."""

from __future__ import annotations

from collections.abc import Callable

from hosting.actions.history import History
from hosting.admin.cache_figures import MISS_LABELS
from hosting.plots import Plot, Series, Values, line, plot


def live_plots(history: History, model: str) -> list[Plot]:
    return [
        plot(
            ("speed", "Speed", "tokens_per_second", "lines"),
            _gauge(history, "Writing", "decode_tokens_per_second", 1),
            _gauge(history, "Reading", "prefill_tokens_per_second", 2),
        ),
        plot(
            ("requests", "Requests", "count", "stack"),
            _gauge(history, "Running", "num_running", 1),
            _gauge(history, "Waiting", "num_waiting", 4),
        ),
    ]


def memory_plots(history: History, model: str) -> list[Plot]:
    parts = [("Weights", "weight"), ("Rows", "row"), ("Prefix cache", "tier"), ("Pool", "pool")]
    limits = [("Limit", "limit"), ("Tight", "tight"), ("Critical", "critical")]
    return [
        plot(
            ("memory", "Memory of the device", "bytes", "stack"),
            *(
                _gauge(history, label, f"memory_{name}_bytes", tone)
                for tone, (label, name) in enumerate(parts, start=1)
            ),
            limits=[
                line(label, _known(history.gauges(f"memory_{name}_bytes")), tone)
                for tone, (label, name) in enumerate(limits, start=1)
            ],
            has_marks=True,
        ),
        plot(
            ("process", "Process", "bytes", "lines"),
            _gauge(history, "Process", "memory_process_bytes", 3),
            _peaks(history, "Used, highest", "memory_used_bytes", 1),
        ),
    ]


def cache_plots(history: History, model: str) -> list[Plot]:
    """Of one model, or of all. Restores and writes belong to no model: they are all models'."""
    tokens = _per_model(history, model)
    looked_up = tokens("looked_up_tokens")
    memory, disk = tokens("hit_memory_tokens"), tokens("hit_disk_tokens")
    computed = _combine(lambda all_, *hits: max(0.0, all_ - sum(hits)), looked_up, memory, disk)
    return [
        plot(
            ("hit-rate", "Hit rate", "percent", "lines"),
            line("Memory and disk", _share(looked_up, memory, disk), 1),
            line("Disk alone", _share(looked_up, disk), 2),
        ),
        plot(
            ("tokens", "Prompt tokens", "count", "bars"),
            line("From memory", memory, 1),
            line("From disk", disk, 2),
            line("Computed", computed, 4),
        ),
        plot(
            ("misses", "Tokens computed, by reason", "count", "bars"),
            *(
                line(label, tokens(f"missed_tokens_{reason}"), tone)
                for tone, (reason, label) in enumerate(MISS_LABELS.items(), start=1)
            ),
        ),
        *_tiers(history, model),
        *_disk_work(history),
        plot(
            ("evictions", "Evicted records", "count", "bars"),
            line("Memory", history.counts("tier_num_evicted"), 1),
            line("Disk", history.counts("disk_num_evicted"), 2),
        ),
    ]


def _tiers(history: History, model: str) -> list[Plot]:
    if model:
        memory, disk = (f"{tier}_bytes@{model}" for tier in ("memory", "disk"))
    else:
        memory, disk = "tier_used_bytes", "disk_used_bytes"
    return [
        plot(
            ("memory-tier", "Memory tier", "bytes", "stack"),
            _gauge(history, "Used", memory, 1),
            limits=[_gauge(history, "Budget", "tier_budget_bytes", 1)],
        ),
        plot(
            ("disk-tier", "Disk tier", "bytes", "stack"),
            _gauge(history, "Used", disk, 2),
            limits=[_gauge(history, "Budget", "disk_budget_bytes", 1)],
        ),
    ]


def _disk_work(history: History) -> list[Plot]:
    disk = _named(history.counts, "disk_{}")
    mean = _combine(
        lambda seconds, count: seconds / count if count else None,
        disk("restore_seconds"),
        disk("num_restores"),
    )
    return [
        plot(
            ("restores", "Restoring from disk, on average", "seconds", "lines"),
            line("Time", mean, 2),
        ),
        plot(
            ("writer", "Records for the disk", "count", "bars"),
            line("Persisted", disk("num_persisted"), 2),
            line("Dropped", disk("num_dropped"), 5),
        ),
        plot(
            ("traffic", "Disk traffic", "bytes", "bars"),
            line("Written", disk("written_bytes"), 2),
            line("Read", disk("read_bytes"), 1),
        ),
    ]


def _gauge(history: History, label: str, name: str, tone: int) -> Series:
    values, highest = history.gauges(name), history.highest(name)
    return Series(label=label, values=values, tone=tone, highest=highest)


def _peaks(history: History, label: str, name: str, tone: int) -> Series:
    values, highest = history.peaks(name), history.highest(name)
    return Series(label=label, values=values, tone=tone, highest=highest, is_peak=True)


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

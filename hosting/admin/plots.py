"""What the instruments draw of an engine's history. Pure; how it looks plots.js knows."""

from __future__ import annotations

from collections.abc import Callable

from hosting.actions.history import History
from hosting.admin.cache_figures import MISS_LABELS
from hosting.plots import Plot, Values, plot


def live_plots(history: History, model: str) -> list[Plot]:
    return [
        plot(
            ("speed", "Speed", "tokens_per_second", "lines"),
            ("Writing", history.gauges("decode_tokens_per_second"), 1),
            ("Reading", history.gauges("prefill_tokens_per_second"), 2),
        ),
        plot(
            ("requests", "Requests", "count", "stack"),
            ("Running", history.gauges("num_running"), 1),
            ("Waiting", history.gauges("num_waiting"), 4),
        ),
    ]


def memory_plots(history: History, model: str) -> list[Plot]:
    memory = _named(history.gauges, "memory_{}_bytes")
    parts = [("Weights", "weight"), ("Rows", "row"), ("Prefix cache", "tier"), ("Pool", "pool")]
    limits = [("Limit", "limit"), ("Tight", "tight"), ("Critical", "critical")]
    return [
        plot(
            ("memory", "Memory of the device", "bytes", "stack"),
            *((label, memory(name), tone) for tone, (label, name) in enumerate(parts, start=1)),
            limits=[
                (label, _known(memory(name)), tone)
                for tone, (label, name) in enumerate(limits, start=1)
            ],
            has_marks=True,
        ),
        plot(
            ("process", "Process", "bytes", "lines"),
            ("Process", memory("process"), 3),
            ("Used, highest", history.gauges("memory_used_bytes_peak"), 1),
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
            ("Memory and disk", _share(looked_up, memory, disk), 1),
            ("Disk alone", _share(looked_up, disk), 2),
        ),
        plot(
            ("tokens", "Prompt tokens", "count", "bars"),
            ("From memory", memory, 1),
            ("From disk", disk, 2),
            ("Computed", computed, 4),
        ),
        plot(
            ("misses", "Tokens computed, by reason", "count", "bars"),
            *(
                (label, tokens(f"missed_tokens_{reason}"), tone)
                for tone, (reason, label) in enumerate(MISS_LABELS.items(), start=1)
            ),
        ),
        *_tiers(history, model),
        *_disk_work(history),
        plot(
            ("evictions", "Evicted records", "count", "bars"),
            ("Memory", history.counts("tier_num_evicted"), 1),
            ("Disk", history.counts("disk_num_evicted"), 2),
        ),
    ]


def _tiers(history: History, model: str) -> list[Plot]:
    if model:
        memory, disk = (history.gauges(f"{tier}_bytes@{model}") for tier in ("memory", "disk"))
    else:
        memory, disk = history.gauges("tier_used_bytes"), history.gauges("disk_used_bytes")
    return [
        plot(
            ("memory-tier", "Memory tier", "bytes", "stack"),
            ("Used", memory, 1),
            limits=[("Budget", history.gauges("tier_budget_bytes"), 1)],
        ),
        plot(
            ("disk-tier", "Disk tier", "bytes", "stack"),
            ("Used", disk, 2),
            limits=[("Budget", history.gauges("disk_budget_bytes"), 1)],
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
            ("restores", "Restoring from disk, on average", "seconds", "lines"), ("Time", mean, 2)
        ),
        plot(
            ("writer", "Records for the disk", "count", "bars"),
            ("Persisted", disk("num_persisted"), 2),
            ("Dropped", disk("num_dropped"), 5),
        ),
        plot(
            ("traffic", "Disk traffic", "bytes", "bars"),
            ("Written", disk("written_bytes"), 2),
            ("Read", disk("read_bytes"), 1),
        ),
    ]


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

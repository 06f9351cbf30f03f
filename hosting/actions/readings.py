"""What is kept of a heartbeat, and how readings become one over a longer time. Pure.

    gauges   how it was: averaged over a slot, whose highest is kept beside it: x, x_peak
    counts   how often, how much: since the reading before; added up
    marks    single events; the last ones

A name with @ belongs to one model: hit_disk_tokens@qwen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from engine import wire

MAX_MARKS = 20  # of one slot, the last ones

_Numbers = dict[str, float]
_MEMORY_GAUGES = ("limit", "tight", "critical", "used", "weight", "row", "tier", "pool", "process")
_MEMORY_COUNTS = ("num_loads", "num_unloads", "num_preempted", "num_refused", "num_failed")
_DISK_GAUGES = ("budget_bytes", "used_bytes", "queued_bytes", "num_records", "num_queued")
_DISK_COUNTS = (
    *("num_saved", "num_persisted", "num_dropped", "num_evicted", "written_bytes", "read_bytes"),
    *("num_restores", "num_late_restores", "restore_seconds"),
    *("num_corrupt", "num_read_errors", "num_write_errors"),
)
_MODEL_GAUGES = ("memory_bytes", "disk_bytes")
_MODEL_COUNTS = ("num_lookups", "looked_up_tokens", "hit_memory_tokens", "hit_disk_tokens")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`totals` are an engine's counters since `started_at`: only a single heartbeat has them."""

    gauges: _Numbers
    counts: _Numbers = dataclasses.field(default_factory=dict)
    marks: Sequence[dict[str, Any]] = ()
    num_beats: int = 1
    started_at: float = 0.0
    beat_at: float = 0.0
    totals: _Numbers = dataclasses.field(default_factory=dict)

    def peak(self, name: str) -> float | None:
        """The highest that a gauge was. A single heartbeat has no other than itself."""
        return self.gauges.get(_peak_name(name), self.gauges.get(name))

    def plain(self) -> dict[str, Any]:
        """As JSON values; `Reading(**plain)` is the way back."""
        return dataclasses.asdict(self)


def read(
    status: wire.EngineStatus,
    *,
    num_queued: int,
    before: Reading | None,
    refusals: Sequence[wire.MemoryMark] = (),
) -> Reading:
    """A heartbeat. What its counters have grown by since `before` are its counts. `refusals`: of
    requests, which no engine has seen."""
    totals = _totals(status)
    counts = [_growth(status, totals, before)]
    if refusals:
        counts.append({"num_refused": float(len(refusals))})
    marks = _new_marks(status, since=before.beat_at if before else status.beat_at)
    return Reading(
        gauges=_gauges(status, num_queued),
        counts=_sum(counts),
        marks=[wire.as_dict(mark) for mark in (*marks, *refusals)][-MAX_MARKS:],
        started_at=status.started_at,
        beat_at=status.beat_at,
        totals=totals,
    )


def merge(readings: Sequence[Reading]) -> Reading:
    """Several readings, oldest first, as one over their whole time."""
    return Reading(
        gauges=_merged_gauges(readings),
        counts=_sum(reading.counts for reading in readings),
        marks=[mark for reading in readings for mark in reading.marks][-MAX_MARKS:],
        num_beats=sum(reading.num_beats for reading in readings),
    )


def _merged_gauges(readings: Sequence[Reading]) -> _Numbers:
    names = {name for reading in readings for name in reading.gauges if not _is_peak(name)}
    merged: _Numbers = {}
    for name in sorted(names):
        # A gauge that a reading lacks (a model that was not there) was not 0: it is left out
        known = [one for one in readings if name in one.gauges]
        num_beats = sum(one.num_beats for one in known)
        merged[name] = sum(one.gauges[name] * one.num_beats for one in known) / num_beats
        merged[_peak_name(name)] = max(one.peak(name) or 0.0 for one in known)
    return merged


def _peak_name(name: str) -> str:
    kind, at, model = name.partition("@")
    return f"{kind}_peak{at}{model}"


def _is_peak(name: str) -> bool:
    return name.partition("@")[0].endswith("_peak")


def _sum(parts: Iterable[_Numbers]) -> _Numbers:
    total: _Numbers = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _growth(status: wire.EngineStatus, totals: _Numbers, before: Reading | None) -> _Numbers:
    """Counters of an engine that was restarted began again at 0. Zeros are left out."""
    if before is None:
        return {}
    old = before.totals if before.started_at == status.started_at else {}
    grown = {name: max(0.0, value - old.get(name, 0.0)) for name, value in totals.items()}
    return {name: value for name, value in grown.items() if value}


def _new_marks(status: wire.EngineStatus, *, since: float) -> list[wire.MemoryMark]:
    marks = status.memory.marks if status.memory else ()
    return [mark for mark in marks if mark.at > since]


def _gauges(status: wire.EngineStatus, num_queued: int) -> _Numbers:
    is_waiting = [row.state == "waiting" for row in status.rows]
    gauges: _Numbers = {
        "decode_tokens_per_second": status.decode_tokens_per_second,
        "prefill_tokens_per_second": status.prefill_tokens_per_second,
        "num_running": is_waiting.count(False),
        "num_waiting": num_queued + is_waiting.count(True),
        **_memory_gauges(status),
    }
    if status.cache:
        gauges |= _cache_gauges(status.cache)
    return gauges


def _memory_gauges(status: wire.EngineStatus) -> _Numbers:
    if status.memory is None:
        used = status.active_bytes + status.pool_bytes
        weights = sum(model.weight_bytes for model in status.models)
        known = {"weight": weights, "pool": status.pool_bytes, "process": status.process_bytes}
        named = {f"memory_{name}_bytes": float(value) for name, value in known.items()}
        return {**named, "memory_used_bytes": used}
    memory = status.memory
    return {f"memory_{name}_bytes": getattr(memory, f"{name}_bytes") for name in _MEMORY_GAUGES}


def _cache_gauges(cache: wire.CacheStatus) -> _Numbers:
    gauges: _Numbers = {
        "tier_budget_bytes": cache.memory.budget_bytes,
        "tier_used_bytes": cache.memory.used_bytes,
        "tier_pinned_bytes": cache.memory.pinned_bytes,
    }
    if cache.disk:
        gauges |= {f"disk_{name}": getattr(cache.disk, name) for name in _DISK_GAUGES}
    for model in cache.models:
        gauges |= {f"{name}@{model.model}": getattr(model, name) for name in _MODEL_GAUGES}
    return gauges


def _totals(status: wire.EngineStatus) -> _Numbers:
    totals: _Numbers = {"generated_tokens": status.generated_tokens}
    if status.memory:
        totals |= {name: getattr(status.memory, name) for name in _MEMORY_COUNTS}
    if status.cache:
        totals["tier_num_evicted"] = status.cache.memory.num_evicted
        if status.cache.disk:
            totals |= {f"disk_{name}": getattr(status.cache.disk, name) for name in _DISK_COUNTS}
        for model in status.cache.models:
            totals |= _model_totals(model)
    return totals


def _model_totals(model: wire.ModelCacheStatus) -> _Numbers:
    totals: _Numbers = {f"{name}@{model.model}": getattr(model, name) for name in _MODEL_COUNTS}
    for reason, number in model.misses.items():
        totals[f"miss_{reason}@{model.model}"] = number
    for reason, tokens in model.missed_tokens.items():
        totals[f"missed_tokens_{reason}@{model.model}"] = tokens
    return totals

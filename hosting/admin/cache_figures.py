"""The prefix cache in figures: what it did in a window by model, and its tiers as they are now."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine import wire
from hosting.actions.heartbeats import heartbeat_of
from hosting.actions.history import History
from hosting.models import HostedModel

MISS_LABELS = {
    "unknown": "Nobody had sent it",
    "not_owner": "Only somebody else had",
    "walked_back": "Not stored for every layer",
    "slower": "Computing was quicker",
    "late": "Read too late",
    "unreadable": "Could not be read",
    "fault": "The cache failed",
}


def prefix_words(nearest_tokens: int, miss: str) -> str:
    """Where a prompt left the nearest stored prefix, and why no more of that was used."""
    reason = MISS_LABELS.get(miss, "")
    stored = f"{nearest_tokens} stored"
    return f"{stored}: {reason.lower()}" if reason else stored


def cache_figures(history: History, engine: str) -> dict[str, Any]:
    beat = heartbeat_of(engine)
    status = beat.cache if beat else None
    counts = _counts(history)
    restores = counts["disk_num_restores"]
    return {
        "models": _models(counts, status),
        "tiers": _tiers(status),
        "misses": _misses(counts),
        "restore_seconds": counts["disk_restore_seconds"] / restores if restores else None,
        "num_restores": restores,
        "num_late_restores": counts["disk_num_late_restores"],
    }


def _counts(history: History) -> Counter[str]:
    total: Counter[str] = Counter()
    for reading in history.readings:
        total.update(reading.counts if reading else {})
    return total


def _models(counts: Counter[str], status: wire.CacheStatus | None) -> list[dict[str, Any]]:
    """Registered models first, then what is cached of others."""
    ids = dict(HostedModel.objects.values_list("name", "pk"))
    stored = {model.model: model for model in status.models} if status else {}
    asked = {name.partition("@")[2] for name in counts if "@" in name}
    names = [*ids, *sorted((asked | set(stored)) - set(ids))]
    return [_model(name, ids.get(name), counts, stored.get(name)) for name in names]


def _model(
    name: str, pk: int | None, counts: Counter[str], stored: wire.ModelCacheStatus | None
) -> dict[str, Any]:
    looked_up = counts[f"looked_up_tokens@{name}"]
    memory, disk = counts[f"hit_memory_tokens@{name}"], counts[f"hit_disk_tokens@{name}"]
    return {
        "name": name,
        "pk": pk,
        "num_lookups": counts[f"num_lookups@{name}"],
        "looked_up_tokens": looked_up,
        "hit_memory_tokens": memory,
        "hit_disk_tokens": disk,
        "computed_tokens": max(0, looked_up - memory - disk),
        "hit_share": (memory + disk) / looked_up if looked_up else None,
        "memory_bytes": stored.memory_bytes if stored else 0,
        "disk_bytes": stored.disk_bytes if stored else 0,
    }


def _tiers(status: wire.CacheStatus | None) -> dict[str, Any]:
    """Figures that are since the engine's start, or now."""
    if status is None:
        return {"memory": None, "disk": None}
    disk = status.disk
    return {
        "memory": wire.as_dict(status.memory),
        "disk": None if disk is None else wire.as_dict(disk),
    }


def _misses(counts: Counter[str]) -> list[dict[str, Any]]:
    """The most costly reason first."""
    found = [
        {
            "reason": label,
            "num_lookups": _over_models(counts, f"miss_{reason}"),
            "tokens": _over_models(counts, f"missed_tokens_{reason}"),
        }
        for reason, label in MISS_LABELS.items()
    ]
    known = [one for one in found if one["num_lookups"] or one["tokens"]]
    return sorted(known, key=lambda one: one["tokens"], reverse=True)


def _over_models(counts: Counter[str], name: str) -> float:
    return sum(value for key, value in counts.items() if key.startswith(f"{name}@"))

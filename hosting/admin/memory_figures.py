"""Memory in figures: as it is now, what happened in a window, and what each model takes."""

from __future__ import annotations

from typing import Any

from engine import wire
from hosting.actions.heartbeats import heartbeat_of
from hosting.actions.history import History
from hosting.actions.memory_limits import memory_limits

_COUNTS = ("num_loads", "num_unloads", "num_preempted", "num_refused", "num_failed")


def memory_figures(history: History, engine: str) -> dict[str, Any]:
    beat = heartbeat_of(engine)
    status = beat.memory if beat else None
    counts = {name: sum(filter(None, history.counts(name))) for name in _COUNTS}
    if status is None:
        return {"now": None, "counts": counts, "models": []}
    return {
        "now": {
            "level": status.level,
            "used_bytes": status.used_bytes,
            "limit_bytes": status.limit_bytes,
            "process_bytes": status.process_bytes,
            "is_limit_explicit": status.is_limit_explicit,
            "set_limit_bytes": memory_limits().get(engine),
        },
        "counts": counts,
        "models": [_model(model) for model in status.models],
    }


def _model(model: wire.ModelMemory) -> dict[str, Any]:
    return {
        "name": model.name,
        "weight_bytes": model.weight_bytes,
        "room_bytes": model.room_bytes,
        "token_bytes": model.needs.token_bytes if model.needs else None,
        "is_loaded": model.is_loaded,
        "is_pinned": model.is_pinned,
    }

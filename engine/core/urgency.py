"""Who is computed before whom: who has least left to do, but waiting counts. Pure."""

from __future__ import annotations

from engine import wire

_AGEING = 0.5  # a second waited weighs as much as half a second of work less
_PATIENCE_SECONDS = {wire.Priority.API: 15.0, wire.Priority.BATCH: 60.0}  # as in lua/_queue.lua


def urgency(work_seconds: float, *, waited_seconds: float, priority: wire.Priority) -> float:
    """The lowest goes first. A lower class's waiting counts from its patience on."""
    patience = _PATIENCE_SECONDS.get(priority, 0.0)
    return work_seconds - _AGEING * (waited_seconds - patience)

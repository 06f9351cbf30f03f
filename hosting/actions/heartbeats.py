"""The last heartbeats of the engines, for whoever does without them while Redis is away."""

from __future__ import annotations

from engine import wire
from hosting.engine_client import EngineUnavailable, get_client


def heartbeats() -> list[wire.EngineStatus]:
    """None of them while Redis is away."""
    try:
        return get_client().engines()
    except EngineUnavailable:
        return []


def heartbeat_of(engine: str) -> wire.EngineStatus | None:
    """None while the engine or Redis is away."""
    return next((beat for beat in heartbeats() if beat.engine == engine), None)

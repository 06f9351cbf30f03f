"""The last heartbeat of one engine, for pages that do without when it is away."""

from __future__ import annotations

from engine import wire
from hosting.engine_client import EngineUnavailable, get_client


def heartbeat_of(engine: str) -> wire.EngineStatus | None:
    """None while the engine or Redis is away."""
    try:
        beats = get_client().engines()
    except EngineUnavailable:
        return None
    return next((beat for beat in beats if beat.engine == engine), None)

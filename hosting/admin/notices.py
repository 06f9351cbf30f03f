"""What is wrong with the service now, in a sentence that says what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from engine import wire
from hosting.engine_client import EngineUnavailable, get_client

STALLED_AFTER_SECONDS = 2.0

NO_REDIS = (
    "Redis does not answer. Accepted requests are safe in the database and go on when it "
    "is back; the supervisor restarts the private one by itself."
)
NO_ENGINE = (
    "No engine reports. Requests wait in the queue and go on when one is back; the log "
    "of the engine says why it ended."
)


def service_notice() -> str:
    """Empty when nothing is wrong."""
    try:
        return notice_of(get_client().engines())
    except EngineUnavailable:
        return NO_REDIS


def notice_of(engines: Sequence[wire.EngineStatus]) -> str:
    if not engines:
        return NO_ENGINE
    stalled = [one for one in engines if is_stalled(one)]
    if not stalled:
        return ""
    names = ", ".join(one.engine for one in stalled)
    return f"{names} has work but has computed nothing for {stalled[0].stalled_seconds:.0f} s."


def is_stalled(engine: wire.EngineStatus) -> bool:
    return engine.stalled_seconds >= STALLED_AFTER_SECONDS

"""Whether an engine of this name lives: two would take each other's requests for lost ones.

It does not know requests.
"""

from __future__ import annotations

import time

from engine import wire
from engine.transport.connection import RedisAway, connect
from engine.transport.heartbeat import ALIVE_SECONDS, BEAT_SECONDS

SILENT_SECONDS = 2 * BEAT_SECONDS


class NameTaken(Exception):
    """Another engine of this name is running."""


def check_name(redis_url: str, engine_name: str) -> None:
    """Raises NameTaken. The last beat of a former life is watched until the next would have come.

    Without Redis nobody can tell: then the name counts as free.
    """
    try:
        is_taken = _is_beating(redis_url, wire.Keys.engine(engine_name))
    except RedisAway:
        return
    if is_taken:
        raise NameTaken(
            f"another engine named {engine_name!r} is running; "
            "give this one a name of its own, by --name or HEARTH_ENGINE_NAME"
        )


def _is_beating(redis_url: str, key: str) -> bool:
    redis = connect(redis_url)
    beat, left_seconds = redis.get(key), redis.pttl(key) / 1000
    if beat is None:
        return False
    silent_seconds = ALIVE_SECONDS - left_seconds
    time.sleep(max(0.0, SILENT_SECONDS - silent_seconds))
    return redis.get(key) not in (beat, None)

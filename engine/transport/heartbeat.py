"""The side thread: an engine's heartbeat, and the leases that other engines let expire.

It notices from its own last heartbeat when Redis has forgotten something. It does not know
requests.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from engine import wire
from engine.core.lives import KEPT_SECONDS
from engine.transport.connection import Outage, RedisAway, Scripts, connect
from engine.transport.exchange import LEASE_SECONDS, Exchange
from engine.transport.reach import reach_of

BEAT_SECONDS = 1.0
ALIVE_SECONDS = 5  # after this long without a heartbeat an engine counts as gone
logger = logging.getLogger(__name__)


class Heartbeat:
    """Runs in a thread of its own.

    Expired leases are released only after a calm time as long as a lease: when Redis was away, the
    whole machine slept or its clock was set, the other engines must have had their chance to renew
    first.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        engine_name: str,
        status: Callable[[], wire.EngineStatus],
        on_doubt: Callable[[], None],
        on_beat: Callable[[], None] = lambda: None,
        closing: threading.Event,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis = connect(redis_url)
        self._scripts = Scripts(self._redis)
        self._reaper = Exchange(self._redis, engine_name=engine_name)
        self._engine_name = engine_name
        self._status = status
        self._on_doubt = on_doubt
        self._on_beat = on_beat
        self._closing = closing
        self._wall_clock = wall_clock
        self._last_beat: str | None = None
        self._last_turn_at = self._calm_since = wall_clock()

    def run(self) -> None:
        outage = Outage()
        while not self._closing.wait(BEAT_SECONDS):
            try:
                self._turn()
                outage.end()
            except RedisAway as error:
                outage.note(error)
                self._disturb()
        self._end()

    def _turn(self) -> None:
        self._on_beat()
        now = self._wall_clock()
        # More than the redis time-outs can explain: the machine slept, or its clock was set.
        if not 0 <= now - self._last_turn_at <= LEASE_SECONDS:
            self._disturb()
        self._last_turn_at = now
        self._beat()
        if now - self._calm_since > LEASE_SECONDS:
            self._reaper.release_expired()

    def _beat(self) -> None:
        status = self._status()
        beat = wire.encode(status)
        key = wire.Keys.engine(self._engine_name)
        former = self._redis.set(key, beat, ex=ALIVE_SECONDS, get=True)
        self._redis.sadd(wire.Keys.ENGINES, self._engine_name)
        for kept in (wire.Keys.engine_life, wire.Keys.engine_forgot):
            self._redis.expire(kept(self._engine_name), KEPT_SECONDS)
        reach = [part for pair in reach_of(status).items() for part in pair]
        self._scripts("reach", self._engine_name, *reach)
        if former != self._last_beat:
            self._disturb()
        self._last_beat = beat

    def _disturb(self) -> None:
        self._calm_since = self._wall_clock()
        self._on_doubt()

    def _end(self) -> None:
        try:
            self._redis.delete(wire.Keys.engine(self._engine_name))
            self._redis.srem(wire.Keys.ENGINES, self._engine_name)
        except RedisAway as error:
            logger.warning("no farewell, Redis is away: %s", error)

"""The ids of ended requests, each handed to one process until it is acknowledged.

It does not know what is done with them.
"""

from __future__ import annotations

import time

import redis

from engine import wire
from hosting.engine_client.connection import connect, speaking_to_redis

RECLAIM_IDLE_MS = 30_000  # an id unacknowledged for so long belongs to a process that died
RECLAIM_SECONDS = 10.0
MAX_IDS = 64
MAX_BLOCK_MS = 1000
_FIRST = "0-0"
# Of all processes, for Redis keeps names for ever; it times each id that was handed out by itself.
_CONSUMER = "ledger"


class TerminalFeed:
    """Used by one thread. Methods raise EngineUnavailable."""

    def __init__(self, redis_url: str | None = None) -> None:
        self._redis = connect(redis_url or _url_of_settings(), block_ms=MAX_BLOCK_MS)
        self.begin()

    def begin(self) -> None:
        """Hand out first what this or another process left unacknowledged, however short ago.

        Where the other is alive both deal with it, which whoever reads must bear.
        """
        self._reclaim_idle_ms = 0
        self._reclaim_from = _FIRST
        self._next_reclaim = 0.0

    def read(self, block_ms: int) -> list[tuple[str, str]]:
        """(entry id, request id) of ended requests, waiting up to `block_ms`, MAX_BLOCK_MS at most,
        for the first."""
        with speaking_to_redis():
            try:
                return self._reclaim() or self._read(block_ms)
            except redis.ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
                self._make_group()
                return []

    def ack(self, entry_ids: list[str]) -> None:
        """These are dealt with: nobody gets them again."""
        if not entry_ids:
            return
        with speaking_to_redis(), self._redis.pipeline(transaction=True) as pipeline:
            # Acknowledge, then delete: Redis 6.2 never forgets a pending entry that was deleted.
            pipeline.xack(wire.Keys.TERMINAL, wire.Keys.TERMINAL_GROUP, *entry_ids)
            pipeline.xdel(wire.Keys.TERMINAL, *entry_ids)
            pipeline.execute()

    def _make_group(self) -> None:
        self._redis.xgroup_create(
            wire.Keys.TERMINAL, wire.Keys.TERMINAL_GROUP, id="0", mkstream=True
        )

    def _read(self, block_ms: int) -> list[tuple[str, str]]:
        answer = self._redis.xreadgroup(
            wire.Keys.TERMINAL_GROUP,
            _CONSUMER,
            {wire.Keys.TERMINAL: ">"},
            count=MAX_IDS,
            block=block_ms,
        )
        return [_entry(one) for _, entries in answer or () for one in entries]

    def _reclaim(self) -> list[tuple[str, str]]:
        if time.monotonic() < self._next_reclaim:
            return []
        answer = self._redis.xautoclaim(
            wire.Keys.TERMINAL,
            wire.Keys.TERMINAL_GROUP,
            _CONSUMER,
            self._reclaim_idle_ms,
            start_id=self._reclaim_from,
            count=MAX_IDS,
        )
        self._reclaim_from = answer[0]
        if self._reclaim_from == _FIRST:  # all were looked at
            self._reclaim_idle_ms = RECLAIM_IDLE_MS
            self._next_reclaim = time.monotonic() + RECLAIM_SECONDS
        # Redis 6.2 hands out pending entries that were trimmed away as nothing.
        return [_entry(one) for one in answer[1] if one[1]]


def _entry(entry: tuple[str, dict[str, str]]) -> tuple[str, str]:
    entry_id, fields = entry
    return entry_id, fields["id"]


def _url_of_settings() -> str:
    from django.conf import settings

    url: str = settings.REDIS_URL
    return url

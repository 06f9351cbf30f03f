"""Connections to Redis and its scripts. It does not know what the scripts do."""

from __future__ import annotations

import logging
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from engine import wire

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0

# A redis.Redis whose answers are text. Its own types also allow bytes and awaitables everywhere.
Connection = Any


RedisAway = redis.RedisError
logger = logging.getLogger(__name__)


class Outage:
    """Says once that Redis is away, and once that it is back. For one thread."""

    def __init__(self) -> None:
        self._is_on = False

    def note(self, error: RedisAway) -> None:
        if not self._is_on:
            logger.warning("Redis is away: %s", error)
        self._is_on = True

    def end(self) -> None:
        if self._is_on:
            logger.warning("Redis is back")
        self._is_on = False


def connect(url: str, *, block_ms: int = 0) -> Connection:
    """One connection, for one thread, that never repeats a command by itself: who sends it knows
    what a repeat means.

    `block_ms`: how long reads may wait in Redis. A machine that is lost says nothing of it.
    """
    client: Connection = redis.Redis.from_url(
        url,
        protocol=2,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=block_ms / 1000 + ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    # The pool would look at the socket before every command, which lets another thread have the
    # interpreter. `single_connection_client` connects at once; Redis may be away.
    client.connection = client.connection_pool.make_connection()
    return client


class Scripts:
    """The queue's scripts on one connection: `scripts("pull", ...)`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._scripts: dict[str, Any] = {}

    def __call__(self, name: str, *arguments: str | int | float) -> Any:
        if name not in self._scripts:
            self._scripts[name] = self._connection.register_script(wire.script_text(name))
        return self._scripts[name](args=arguments)

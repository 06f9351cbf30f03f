"""Connections to Redis for sync and async code. It does not know what is said over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
MAX_ASYNC_CONNECTIONS = 8

# A redis client whose answers are text. Its own types also allow bytes and awaitables everywhere.
Connection = Any


class EngineUnavailable(Exception):
    """The engine's Redis is away or does not answer."""


def why_away(error: Exception) -> str:
    """A time-out of asyncio says nothing."""
    return str(error) or "it does not answer"


@contextlib.contextmanager
def speaking_to_redis() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise EngineUnavailable(str(error)) from error


def connect(url: str, *, block_ms: int = 0) -> Connection:
    """`block_ms`: how long reads may wait in Redis. A machine that is lost says nothing of it."""
    return redis.Redis.from_url(
        url,
        protocol=2,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=block_ms / 1000 + ANSWER_SECONDS,
        # Once, for a connection that a restart of Redis has cut. All our commands may be repeated.
        retry=Retry(NoBackoff(), 1),
    )


def connect_async(url: str) -> Connection:
    """Without a time-out of the socket: callers that need one use asyncio.timeout.

    redis-py would use asyncio.wait_for, which before Python 3.12 may swallow a cancellation.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=MAX_ASYNC_CONNECTIONS,
        timeout=None,
        protocol=2,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=None,
        retry=AsyncRetry(NoBackoff(), 1),
    )
    return redis.asyncio.Redis.from_pool(pool)

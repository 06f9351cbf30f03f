"""A connection to Redis that one thread has for itself."""

from __future__ import annotations

import pytest
import redis

from engine.transport import IntakeQueue, RedisAway, connection
from engine.transport.connection import connect
from tests.redis_line import RedisLine
from tests.redis_process import RedisProcess


def test_a_command_asks_no_pool_for_its_connection(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(redis_url)
    monkeypatch.delattr(redis.ConnectionPool, "get_connection")
    assert client.set("a", "b")
    assert client.get("a") == "b"


def test_it_is_made_before_redis_is_there_and_outlives_its_restart(
    mortal_redis: RedisProcess,
) -> None:
    mortal_redis.kill()
    client = connect(mortal_redis.url)
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.ping()
        mortal_redis.start()
        assert client.ping()
        mortal_redis.kill()


def test_who_waits_at_a_line_that_fell_silent_learns_of_it(
    redis_line: RedisLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)
    queue = IntakeQueue(redis_line.url, name="intake-1")
    for _ in range(2):
        assert list(queue.entries(wait_ms=1)) == []
    redis_line.fall_silent()
    with pytest.raises(RedisAway):
        list(queue.entries())
    assert list(queue.entries(wait_ms=1)) == []

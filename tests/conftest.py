"""Fixtures for every test: a private Redis, empty for each test that asks for its URL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis

from tests.redis_line import RedisLine
from tests.redis_process import RedisProcess

# How long an example takes says more of the machine than of the code
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def _shared_redis() -> Iterator[RedisProcess]:
    with tempfile.TemporaryDirectory(prefix="hearth-redis-") as folder:
        process = RedisProcess(Path(folder))
        process.start()
        yield process
        process.stop()


@pytest.fixture
def redis_url(_shared_redis: RedisProcess) -> str:
    """The URL of a real, empty Redis."""
    with redis.Redis.from_url(_shared_redis.url) as connection:
        connection.flushdb()
    return _shared_redis.url


@pytest.fixture
def redis_line(redis_url: str) -> Iterator[RedisLine]:
    """A line to it that may fall silent."""
    line = RedisLine(redis_url)
    yield line
    line.close()


@pytest.fixture
def mortal_redis() -> Iterator[RedisProcess]:
    """A Redis of this test alone, which may kill and restart it."""
    with tempfile.TemporaryDirectory(prefix="hearth-redis-") as folder:
        process = RedisProcess(Path(folder))
        process.start()
        yield process
        process.stop()

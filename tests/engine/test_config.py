"""Settings from the environment."""

from __future__ import annotations

import pytest

from engine.config import BadConfig, read_config


def test_the_private_redis_is_the_default() -> None:
    config = read_config([], {"HEARTH_DATA_DIR": "/srv/hearth"})
    assert config.redis_url == "unix:///srv/hearth/run/redis.sock" and config.name == "engine-1"


def test_the_environment_names_redis_memory_and_dtype() -> None:
    environment = {
        "REDIS_URL": "redis://example/3",
        "HEARTH_MEMORY_LIMIT_GB": "1.5",
        "HEARTH_CPU_DTYPE": "stored",
    }
    config = read_config(["--name", "engine-2"], environment)
    assert config.redis_url == "redis://example/3" and config.name == "engine-2"
    assert config.memory_limit_bytes == int(1.5 * 1024**3) and config.keeps_cpu_dtype


def test_a_daily_write_budget_of_nothing_is_nothing() -> None:
    assert read_config([], {"HEARTH_CACHE_DAILY_WRITE_GB": "0"}).cache_daily_write_bytes == 0
    assert read_config([], {}).cache_daily_write_bytes > 0


@pytest.mark.parametrize("text", ["many", "-1", "0", "nan"])
def test_a_memory_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="HEARTH_MEMORY_LIMIT_GB"):
        read_config([], {"HEARTH_MEMORY_LIMIT_GB": text})


def test_a_strange_name_is_refused() -> None:
    with pytest.raises(BadConfig, match="--name"):
        read_config(["--name", "a b"], {})

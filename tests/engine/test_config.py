"""Settings from the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.config import BadConfig, read_config, read_log_level


def test_the_private_redis_is_the_default() -> None:
    config = read_config([], {"HEARTH_DATA_DIR": "/srv/hearth"})
    assert config.redis_url == "unix:///srv/hearth/run/redis.sock" and config.name == "engine-1"


def test_a_tilde_is_the_home_folder_where_no_shell_has_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/hearth")
    config = read_config([], {"HEARTH_DATA_DIR": "~/hearth"})
    assert str(config.data_dir) == "/home/hearth/hearth"
    assert config.redis_url == "unix:///home/hearth/hearth/run/redis.sock"


def test_the_environment_names_redis_memory_and_dtype() -> None:
    environment = {
        "REDIS_URL": "redis://example/3",
        "HEARTH_MEMORY_LIMIT_GB": "1.5",
        "HEARTH_CPU_DTYPE": "stored",
    }
    config = read_config(["--name", "engine-2"], environment)
    assert config.redis_url == "redis://example/3" and config.name == "engine-2"
    assert config.memory_limit_bytes == int(1.5 * 1024**3) and config.keeps_cpu_dtype


def test_where_models_are_and_a_share_of_the_memory() -> None:
    folders = os.pathsep.join(["/srv/models", "", "/mnt/more"])
    environment = {"HEARTH_MODEL_FOLDERS": folders, "HEARTH_MEMORY_SHARE": "0.5"}
    config = read_config([], environment)
    assert [str(folder) for folder in config.model_folders] == ["/srv/models", "/mnt/more"]
    assert config.memory_share == 0.5
    assert read_config([], {}).memory_share == 1.0


@pytest.mark.parametrize("told", ["0", "1.5", "half"])
def test_a_share_is_a_part(told: str) -> None:
    with pytest.raises(BadConfig, match="HEARTH_MEMORY_SHARE"):
        read_config([], {"HEARTH_MEMORY_SHARE": told})


def test_a_daily_write_budget_of_nothing_is_nothing() -> None:
    assert read_config([], {"HEARTH_CACHE_DAILY_WRITE_GB": "0"}).cache_daily_write_bytes == 0
    assert read_config([], {}).cache_daily_write_bytes > 0


@pytest.mark.parametrize("text", ["many", "-1", "0", "nan", "inf", "1e400", "1e300"])
def test_a_memory_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="HEARTH_MEMORY_LIMIT_GB"):
        read_config([], {"HEARTH_MEMORY_LIMIT_GB": text})


@pytest.mark.parametrize("what", ["MEMORY", "DISK", "DAILY_WRITE"])
def test_a_cache_without_end_is_refused(what: str) -> None:
    with pytest.raises(BadConfig, match=f"HEARTH_CACHE_{what}_GB"):
        read_config([], {f"HEARTH_CACHE_{what}_GB": "inf"})


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(BadConfig, match="HEARTH_CPU_DTYPE is one of float32, stored"):
        read_config([], {"HEARTH_CPU_DTYPE": "bfloat16"})


def test_what_is_empty_counts_as_not_set() -> None:
    names = ("DATA_DIR", "CPU_DTYPE", "MEMORY_LIMIT_GB", "CACHE_DISK_GB", "ENGINE_NAME")
    empty = dict.fromkeys([f"HEARTH_{name}" for name in names] + ["REDIS_URL"], "")
    assert read_config([], empty) == read_config([], {})
    assert read_log_level({"HEARTH_LOG_LEVEL": ""}) == "INFO"


@pytest.mark.parametrize("process", ["engine", "engine.intake"])
def test_an_unknown_log_level_ends_the_start_in_a_sentence(process: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", process],
        env=os.environ | {"HEARTH_LOG_LEVEL": "LOUD"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "HEARTH_LOG_LEVEL is one of INFO" in ended.stderr and "Traceback" not in ended.stderr


def test_a_strange_name_is_refused() -> None:
    with pytest.raises(BadConfig, match="--name"):
        read_config(["--name", "a b"], {})

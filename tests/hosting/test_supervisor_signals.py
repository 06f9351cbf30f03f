"""What ends `manage.py up`, and what does not."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from tests.hosting.redis_alone import RedisAlone, redis_alone


def kill_redis(running: RedisAlone) -> None:
    for child in psutil.Process(running.supervisor.pid).children():
        if "redis-server" in child.name() or "valkey-server" in child.name():
            child.kill()


def test_the_end_of_a_connection_ends_nothing_under_nohup(tmp_path: Path) -> None:
    with redis_alone(tmp_path, "nohup") as running:
        running.supervisor.send_signal(signal.SIGHUP)
        kill_redis(running)
        running.wait_for("starts again")


def test_the_end_of_a_terminal_ends_it(tmp_path: Path) -> None:
    with redis_alone(tmp_path) as running:
        running.supervisor.send_signal(signal.SIGHUP)
        assert running.supervisor.wait(timeout=20) == 0

"""The clock of scheduled tasks, as the process that it is."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery.beat import PersistentScheduler

from hosting.beat import Clock
from hosting.celery import app
from tests.environment import clear_settings
from tests.waiting import wait_until

SWALLOWING = """
import time
from hosting import beat

class EndsSlowly:
    def __del__(self):
        print("begun", flush=True)
        time.sleep(30)

class Service:
    def __init__(self, app):
        pass

    def start(self):
        EndsSlowly()
        time.sleep(30)

beat.Clock = Service
beat.main()
"""
MINUTE = 61.0  # between two runs of the most frequent task, and the seconds are rounded up
ROOT = Path(__file__).resolve().parent.parent.parent


@contextlib.contextmanager
def beat(data_dir: Path, redis_url: str) -> Iterator[subprocess.Popen[bytes]]:
    environ = clear_settings(dict(os.environ))
    process = subprocess.Popen(
        [sys.executable, "-m", "hosting.beat"],
        cwd=ROOT,
        env={**environ, "HEARTH_DATA_DIR": str(data_dir), "REDIS_URL": redis_url},
    )
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_what_was_due_while_it_was_off_is_started_at_once(tmp_path: Path, redis_url: str) -> None:
    kept = PersistentScheduler(app, schedule_filename=str(tmp_path / "celerybeat-schedule"))
    kept.schedule["retention"].last_run_at -= datetime.timedelta(days=2)
    kept.close()
    with beat(tmp_path, redis_url), redis.Redis.from_url(redis_url) as transport:
        wait_until(
            lambda: any(
                b"hosting.tasks.apply_retention" in message
                for message in transport.lrange("hearth-celery:celery", 0, -1)
            ),
            seconds=60,
        )


def test_a_clock_that_was_set_back_holds_up_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Clock(app, schedule_filename=str(tmp_path / "schedule")).get_scheduler()
    try:
        assert made.tick() <= MINUTE
        an_hour_ago = app.now() - datetime.timedelta(hours=1)
        monkeypatch.setattr(type(app), "now", lambda _: an_hour_ago)
        assert made.tick() <= MINUTE
    finally:
        made.close()


def test_it_ends_also_when_a_destructor_swallows_the_signal() -> None:
    environ = clear_settings(dict(os.environ))
    with subprocess.Popen(
        [sys.executable, "-c", SWALLOWING],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.terminate()
        assert process.wait(timeout=20) == 0

"""A real Daphne on the test's database and Redis, for tests that speak HTTP to it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.conf import settings as django_settings
from django.db import connection

from tests.environment import clear_settings
from tests.redis_process import RedisProcess

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 60.0


class Listener:
    """Asks, and hears what is said until the connection ends."""

    def __init__(self, url: str, api_key: str, body: dict[str, Any], **headers: str) -> None:
        self.lines: list[str] = []
        self._call = "POST", url + "/chat/completions"
        headers["Authorization"] = f"Bearer {api_key}"
        self._said: dict[str, Any] = {"json": body, "headers": headers}
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self) -> None:
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream(*self._call, **self._said, timeout=60) as answer,
        ):
            for line in answer.iter_lines():
                self.lines.append(line)


def database_url() -> str:
    """The test's database, for another process."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.05)):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError(f"not {what} in {PATIENCE_SECONDS} s")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def web(django_db_setup: None, _shared_redis: RedisProcess) -> Iterator[str]:
    """The address of its API."""
    with started_web(_shared_redis.url) as (url, _):
        yield url


@contextlib.contextmanager
def started_web(redis_url: str, **settings: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of its API, and itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "hosting.daphne_server"),
            *("-p", str(port), "hosting.asgi:application"),
        ],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env={
            **clear_settings(dict(os.environ)),
            "DATABASE_URL": database_url(),
            "REDIS_URL": redis_url,
            "HEARTH_SECRET_KEY": django_settings.SECRET_KEY,
            "HEARTH_DATA_DIR": str(django_settings.DATA_DIR),
            "HEARTH_SETTINGS_KEPT_SECONDS": "0",  # each test begins with other rows
            **settings,
        },
    )
    try:
        wait_until(lambda: is_listening(port), "listening")
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        process.terminate()
        process.wait()

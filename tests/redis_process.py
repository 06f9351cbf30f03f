"""A private redis-server on a unix socket, with append-only persistence, that tests may kill."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from hosting.redis_server import find_redis_server, is_answering, redis_arguments

START_SECONDS = 10.0


class RedisProcess:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket_path = folder / "r.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket_path}"

    def start(self) -> None:
        arguments = redis_arguments(
            find_redis_server(os.environ), socket_path=self._socket_path, folder=self._folder
        )
        self._process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not is_answering(self._socket_path):
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def forget(self) -> None:
        """Remove what it has stored on disk. It must not run."""
        (self._folder / "appendonly.aof").unlink(missing_ok=True)

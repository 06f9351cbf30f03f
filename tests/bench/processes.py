"""Processes that live as long as a `with` block, and the surroundings they all get alike.

It does not know what the processes do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from hosting.supervisor import heap, openblas
from tests.bench.report import REPOSITORY

READY_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 15.0
LAST_JOB_SECONDS = 5.0


class StartFailed(Exception):
    """A process ended, or was not ready in time. The message ends with its log."""


def rival_environment() -> dict[str, str]:
    """What a rival's process gets: BLAS, its threads and the heap as our engine gets them, no
    network."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    blas = openblas.engine_environment(os.environ, num_cpus=os.cpu_count())
    return {**os.environ, **offline, **blas, **heap.engine_environment(os.environ)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """A process in a group of its own; the whole group is gone when the block is left."""

    def __init__(
        self, command: list[str], *, log: Path, environment: dict[str, str] | None = None
    ) -> None:
        self._command = command
        self._log = log
        self._environment = environment or rival_environment()

    def __enter__(self) -> Self:
        self.process = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until_ready(self, url: str) -> None:
        """Return once `url` answers 200."""
        give_up_at = time.monotonic() + READY_TIMEOUT_SECONDS
        while not _answers(url):
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise StartFailed(f"{' '.join(self._command)}\n{self._log_tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("w") as log:
            return subprocess.Popen(
                self._command,
                cwd=REPOSITORY,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])


class JobChild(Child):
    """A process that reads one job a line and answers with one line, both JSON."""

    def do(self, job: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise StartFailed(f"{' '.join(self._command)}\n{self._log_tail()}")
        return json.loads(line)

    def stop(self) -> None:
        """No more jobs: a child that is not in the middle of one ends by itself and tidies up."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LAST_JOB_SECONDS)
        super().stop()
        self.process.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("w") as log:
            return subprocess.Popen(
                self._command,
                cwd=REPOSITORY,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False

"""A whole running Hearth for tests: `manage.py up` in a data folder and on a port of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.environment import clear_settings

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 180.0
RESTART_SECONDS = 90.0
END_SECONDS = 10.0
POLL_SECONDS = 0.1
SETTINGS_KEPT_SECONDS = 0.6  # what the web process has read is as old as 0.5 s
MANY_AT_ONCE = "64"  # requests of one person: tests share their key
# How each process is known by its command line
MARKS = {
    "redis": "redis-server",
    "web": "daphne",
    "intake": "engine.intake",
    "engine": "-m engine",
    "celery": "celery -A hosting",
    "beat": "hosting.beat",
    "ledger": "consume_ledger",
    "reaper": "reaper.py",
}


class StackFailed(Exception):
    """The service under test did not do in time what it must."""


@dataclasses.dataclass
class Stack:
    """One installation. `kill` and `wait_*` are for the tests that hurt it."""

    port: int
    data_dir: Path
    admin_email: str = "admin@example.org"
    admin_password: str = "warm-stones-in-the-hearth"
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    supervisor: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return {
            **clear_settings(dict(os.environ)),
            "HEARTH_DATA_DIR": str(self.data_dir),
            "PORT": str(self.port),
            "HEARTH_ADMIN_EMAIL": self.admin_email,
            "HEARTH_ADMIN_PASSWORD": self.admin_password,
            **self.environment,
        }

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        with (self.data_dir / "up.txt").open("ab") as output:
            self.supervisor = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=ROOT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_ready()

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Seconds until the supervisor had ended."""
        assert self.supervisor is not None
        started = time.monotonic()
        self.supervisor.send_signal(number)
        self.supervisor.wait(timeout=END_SECONDS * 3)
        return time.monotonic() - started

    def stop_if_running(self) -> None:
        if self.supervisor is not None and self.supervisor.poll() is None:
            self.stop()

    def wait_ready(self) -> None:
        self.wait_until(lambda: self.readiness()[0] == 200, "ready", seconds=READY_SECONDS)

    def wait_until(
        self, holds: Callable[[], bool], what: str, *, seconds: float = RESTART_SECONDS
    ) -> float:
        """Poll until `holds()`; the seconds it took. Raises StackFailed with the log's end."""
        started = time.monotonic()
        while not holds():
            if self.supervisor is None or self.supervisor.poll() is not None:
                raise StackFailed(f"not {what}: `up` has ended.\n{self.output()[-4000:]}")
            if time.monotonic() - started > seconds:
                state = self.readiness()
                raise StackFailed(f"not {what}; {state}\n{self.output()[-4000:]}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - started

    # -- look -----------------------------------------------------------------------------------

    def readiness(self) -> tuple[int, list[str]]:
        """The status of /readyz and its reasons; 0 while the web process does not answer."""
        status, body = self.get("/readyz")
        return status, json.loads(body)["reasons"] if status in (200, 503) else []

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def output(self) -> str:
        return (self.data_dir / "up.txt").read_text(errors="replace")

    def processes(self) -> dict[str, psutil.Process]:
        """Every child of the supervisor by name."""
        assert self.supervisor is not None
        found: dict[str, psutil.Process] = {}
        for child in psutil.Process(self.supervisor.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                command = " ".join(child.cmdline())
                name = next((name for name, mark in MARKS.items() if mark in command), None)
                if name is not None:
                    found[name] = child
        return found

    def pid_of(self, name: str) -> int:
        return int(self.processes()[name].pid)

    # -- hurt -----------------------------------------------------------------------------------

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """The pid that was hit."""
        pid = self.pid_of(name)
        os.kill(pid, number)
        return pid

    def wait_restarted(self, name: str, old_pid: int) -> None:
        def is_new() -> bool:
            process = self.processes().get(name)
            return process is not None and process.pid != old_pid

        self.wait_until(is_new, f"{name} started again")
        self.wait_ready()

    def lose_redis(self) -> None:
        """Killed, and nothing is left of what it had written."""
        for file in (self.data_dir / "redis").rglob("appendonly*.*"):
            file.unlink()
        self.wait_restarted("redis", self.kill("redis"))

    # -- use ------------------------------------------------------------------------------------

    def manage(self, *arguments: str) -> str:
        """The last line that a management command prints. What a shell has changed counts."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise StackFailed(f"manage.py {' '.join(arguments)}: {done.stderr[-2000:]}")
        if arguments[0] == "shell":
            time.sleep(SETTINGS_KEPT_SECONDS)
        return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Read the installation's database, past Django."""
        if url := os.environ.get("DATABASE_URL"):
            with psycopg.connect(url) as connection:
                return connection.execute(sql.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.data_dir / "db.sqlite3")) as file:
            return file.execute(sql).fetchall()

    def num_rows(self, table: str, where: str = "1 = 1") -> int:
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

    @property
    def num_usage_records(self) -> int:
        return self.num_rows("accounts_usagerecord")

    def wait_settled(self, *, seconds: float = 30) -> None:
        """Every generation has ended, in the database too."""
        is_open = "state IN ('queued', 'running')"
        self.wait_until(
            lambda: self.num_rows("hosting_generation", is_open) == 0, "settled", seconds=seconds
        )

    def create_api_key(self, name: str = "test") -> str:
        return self.manage("create_api_key", self.admin_email, name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_stack(**environment: str) -> Iterator[Stack]:
    """A fresh installation that is ready, and is gone with its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hearth-stack-"))
    stack = Stack(port=free_port(), data_dir=folder, environment=environment)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop_if_running()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The installation that most tests share. Whoever hurts it waits until it is ready again, and
    who kills its web process means all of that, on a machine with many processors too."""
    with running_stack(HEARTH_MAX_CONCURRENT=MANY_AT_ONCE, HEARTH_WEB_PROCESSES="1") as running:
        yield running


@pytest.fixture(scope="session")
def api_key(stack: Stack) -> str:
    return stack.create_api_key()

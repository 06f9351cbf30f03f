"""`manage.py up --only redis`: the supervisor with the one process that starts quickly."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.environment import clear_settings
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
STARTED = "preparing the database"


@dataclasses.dataclass(frozen=True, slots=True)
class RedisAlone:
    supervisor: subprocess.Popen[bytes]
    output_path: Path

    def output(self) -> str:
        return self.output_path.read_text()

    def wait_for(self, text: str) -> None:
        """Until it was said, or nobody is there to say it."""
        wait_until(lambda: text in self.output() or self.supervisor.poll() is not None, seconds=60)
        assert text in self.output()


@contextlib.contextmanager
def redis_alone(data_dir: Path, *prefix: str, **environment: str) -> Iterator[RedisAlone]:
    """It has started. `prefix`: a command that runs commands."""
    environ = clear_settings(dict(os.environ)) | {"HEARTH_DATA_DIR": str(data_dir)} | environment
    output_path = data_dir / "up.txt"
    with output_path.open("wb") as file:
        supervisor = subprocess.Popen(
            [*prefix, sys.executable, "manage.py", "up", "--only", "redis"],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # as in a terminal
        )
    running = RedisAlone(supervisor, output_path)
    try:
        running.wait_for(STARTED)
        yield running
    finally:
        supervisor.terminate()
        supervisor.wait(timeout=20)

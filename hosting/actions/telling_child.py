"""A child process that does one long piece of work, and tells of it in lines of JSON.

It has the lock of whoever started it, too: nobody begins the same before both have ended. A child
ends when its standard input does, so it outlives nobody.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO, Any

from django.conf import settings

_LOOK_SECONDS = 0.5


class TellingChild:
    """Owner: the thread that started it. Another one reads what the child tells."""

    def __init__(self, module: str, *arguments: str, lock: IO[str]) -> None:
        self.told: dict[str, Any] = {}  # the latest of each name
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=settings.BASE_DIR,
            text=True,
            pass_fds=(lock.fileno(),),
        )
        self._reader = threading.Thread(target=self._read, name=f"child-{self._process.pid}")
        self._reader.start()

    @property
    def code(self) -> int:
        """Of its end: 0 where it has done all, less where a signal ended it."""
        return self._process.returncode

    def is_running(self) -> bool:
        """Waits for its end, but not for long."""
        try:
            self._process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.update(json.loads(line))

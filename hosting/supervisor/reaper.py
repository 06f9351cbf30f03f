"""No orphan: a tiny process that ends the supervisor's children when the supervisor was killed.

It reads process groups from a pipe ("+4711", "-4711"). The kernel closes the pipe when the
supervisor dies, however it dies; then every group still listed gets SIGTERM and 3 s later SIGKILL.
(Linux has a death signal for this, macOS has not.) The process side is standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

TERM_SECONDS = 3.0


class Reaper:
    """The supervisor's end of the pipe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


def signal_group(group: int, number: int) -> bool:
    """Whether the group still had a process to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says "permission" of a zombie
        return False
    return True


def read_groups(lines: Iterable[str]) -> set[int]:
    """The groups left when the pipe closes."""
    groups: set[int] = set()
    for line in lines:
        number = int(line[1:])
        if line.startswith("+"):
            groups.add(number)
        else:
            groups.discard(number)
    return groups


def end(groups: set[int]) -> None:
    for group in groups:
        signal_group(group, signal.SIGTERM)
        signal_group(group, signal.SIGCONT)  # a stopped process cannot act on SIGTERM
    deadline = time.monotonic() + TERM_SECONDS
    while time.monotonic() < deadline and any(signal_group(group, 0) for group in groups):
        time.sleep(0.05)
    for group in groups:
        signal_group(group, signal.SIGKILL)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    end(read_groups(sys.stdin))

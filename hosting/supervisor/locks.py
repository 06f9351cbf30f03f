"""One supervisor for each part of a data folder, by locks that end with their process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunning(Exception):
    """This data folder is already in use by a running Hearth."""


class PartLocks:
    """Holds a lock file per part until the process ends. Owner: the supervisor's main thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptors: list[int] = []
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def take(self, part: str) -> None:
        """Raises AlreadyRunning, naming the process that has it."""
        path = self._folder / f"{part}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
            os.close(descriptor)
            raise AlreadyRunning(
                f"The {part} process of {self._folder.parent} is already supervised by process "
                f"{owner}. Stop that one, or choose another folder by HEARTH_DATA_DIR."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptors.append(descriptor)

    def release(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Waits its turn; for short work that two supervisors must not do at once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

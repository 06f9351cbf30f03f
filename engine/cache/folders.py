"""The cache folders of a data folder, one for each engine's name, and their locks.

    engine-1         an engine's records
    engine-1~lock    held by the engine while it lives; last touched when the folder was last in use
    engine-1~gone    on its way out

An engine whose name never comes again hears of nothing that is to be forgotten. So what nobody has
used for KEPT_SECONDS is deleted, by any engine of the same data folder. No engine's name has a `~`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

KEPT_SECONDS = 7 * 86_400.0
LOOK_SECONDS = 3600.0
_LOCK, _GONE = "~lock", "~gone"


class FolderTaken(OSError):
    """Another engine uses this cache folder."""


class FolderLock:
    """Held from when it is made until it is released, or the process ends. Raises FolderTaken."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(folder.with_name(folder.name + _LOCK), flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FolderTaken(f"another engine uses {folder}") from None

    def touch(self) -> None:
        os.utime(self._descriptor)

    def unused_seconds(self) -> float:
        """Since it was touched; a folder that had no lock begins to count now."""
        return time.time() - os.fstat(self._descriptor).st_mtime

    def release(self) -> None:
        os.close(self._descriptor)


class FolderKeeper:
    """Touches the own lock and deletes what is abandoned beside it: at once, then every hour, in a
    thread of its own, for deleting takes as long as it takes."""

    def __init__(self, directory: Path, lock: FolderLock | None) -> None:
        self._directory = directory
        self._lock = lock
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cache-folders", daemon=True)
        self._thread.start()

    def close(self, *, wait_seconds: float) -> None:
        self._closing.set()
        self._thread.join(wait_seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(OSError):  # of a disk that is read only or gone
                if self._lock is not None:
                    self._lock.touch()
                delete_abandoned(self._directory)
            self._closing.wait(LOOK_SECONDS)


def delete_abandoned(directory: Path) -> None:
    """Delete what no engine has used for long. What cannot be deleted is left for the next time."""
    for folder in _folders(directory):
        with contextlib.suppress(OSError):
            _retire(folder)
    for gone in directory.glob(f"*{_GONE}"):
        shutil.rmtree(gone, ignore_errors=True)


def _folders(directory: Path) -> Iterator[Path]:
    return (one for one in directory.glob("*") if one.is_dir() and "~" not in one.name)


def _retire(folder: Path) -> None:
    """Renamed, which takes no time: an engine of this name that starts now is not held up."""
    lock = FolderLock(folder)
    try:
        if lock.unused_seconds() > KEPT_SECONDS:
            folder.rename(folder.with_name(folder.name + _GONE))
    finally:
        lock.release()

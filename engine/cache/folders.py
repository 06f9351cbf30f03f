"""The cache folders of a data folder, one for each engine's name, and their locks.

    engine-1         an engine's records
    engine-1~lock    held by the engine while it lives; last touched when the folder was last in use
    engine-1~gone    on its way out

An engine whose name never comes again hears of nothing that is to be forgotten. So what nobody has
used for KEPT_SECONDS is deleted, by any engine of the same data folder, and with it what is noted
elsewhere in files of the engine's name. No engine's name has a `~`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from engine.core.lives import KEPT_SECONDS

LOOK_SECONDS = 3600.0
_LOCK, _GONE = "~lock", "~gone"


class FolderTaken(OSError):
    """Another engine uses this cache folder."""


class FolderLock:
    """Held from when it is made until it is released, or the process ends. Raises FolderTaken."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = folder.with_name(folder.name + _LOCK)
        self._take()
        while os.fstat(self._descriptor).st_nlink == 0:  # it was deleted before it was locked
            self.release()
            self._take()

    def _take(self) -> None:
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise FolderTaken(f"another engine has {self._file}") from None

    def touch(self) -> None:
        os.utime(self._descriptor)

    def unused_seconds(self) -> float:
        """Since it was touched; a folder that had no lock begins to count now."""
        return time.time() - os.fstat(self._descriptor).st_mtime

    def delete(self) -> None:
        self._file.unlink()

    def release(self) -> None:
        os.close(self._descriptor)


class FolderKeeper:
    """Touches the own lock and deletes what is abandoned beside it: at once, then every hour, in a
    thread of its own, for deleting takes as long as it takes."""

    def __init__(
        self, directory: Path, lock: FolderLock | None, *, notes: Sequence[Path] = ()
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._notes = notes
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
                delete_abandoned(self._directory, notes=self._notes)
            self._closing.wait(LOOK_SECONDS)


def delete_abandoned(directory: Path, *, notes: Sequence[Path] = ()) -> None:
    """Delete what no engine has used for long, and its files in the folders `notes`. What cannot be
    deleted is left for the next time."""
    for name in _names(directory):
        with contextlib.suppress(OSError):
            _retire(directory / name, notes)
    for gone in directory.glob(f"*{_GONE}"):
        shutil.rmtree(gone, ignore_errors=True)


def _names(directory: Path) -> set[str]:
    """Of engines that have a folder here, or a lock."""
    folders = {one.name for one in directory.glob("*") if one.is_dir() and "~" not in one.name}
    return folders | {one.name.removesuffix(_LOCK) for one in directory.glob(f"*{_LOCK}")}


def _retire(folder: Path, notes: Sequence[Path]) -> None:
    """Renamed, which takes no time: an engine of this name that starts now is not held up."""
    lock = FolderLock(folder)
    try:
        if lock.unused_seconds() <= KEPT_SECONDS:
            return
        with contextlib.suppress(FileNotFoundError):
            folder.rename(folder.with_name(folder.name + _GONE))
        for file in (one for directory in notes for one in directory.glob("*")):
            if file.stem == folder.name:
                file.unlink()
        lock.delete()
    finally:
        lock.release()

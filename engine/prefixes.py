"""Builds the prefix cache of an engine from its settings. It decides sizes, nothing else."""

from __future__ import annotations

import datetime
import logging
import shutil
import time
from pathlib import Path

from engine.at_work import at_work_file
from engine.cache.disk_tier import DiskLimits, DiskTier
from engine.cache.files import Files
from engine.cache.folders import FolderKeeper, FolderLock
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.config import EngineConfig
from engine.estimates import estimates_file
from engine.model import snapshots

_GIB = 1024**3
_MEMORY_SHARE = 0.15  # of the memory limit
_LARGEST_DISK_BYTES = 20 * _GIB
_DISK_SHARE = 0.1  # of what is free
_FREE_FLOOR_BYTES = 2 * _GIB
_QUEUED_WRITE_BYTES = _GIB
_CLOSE_SECONDS = 3.0
logger = logging.getLogger(__name__)


class Prefixes:
    """The cache and its disk thread, to be closed together."""

    def __init__(
        self, config: EngineConfig, *, ceiling_bytes: int, files: Files | None = None
    ) -> None:
        folder = config.data_dir / "cache" / config.name
        self._lock = _take(folder)
        notes = (at_work_file(config).parent, estimates_file(config).parent)
        self._keeper = FolderKeeper(folder.parent, self._lock, notes=notes)
        disk = _open_disk(config, folder, files) if self._lock is not None else None
        rows = disk.index.take_rows() if disk else []
        self._io = CacheIO(disk, max_queued_bytes=_QUEUED_WRITE_BYTES) if disk else None
        budget = config.cache_memory_bytes
        self.cache = PrefixCache(
            MemoryTier(
                budget_bytes=int(ceiling_bytes * _MEMORY_SHARE) if budget is None else budget
            ),
            self._io,
            contents=snapshots.CONTENTS,
            rows=rows,
        )

    def is_clearing(self) -> bool:
        """Whether something that was ordered to go is not gone. From any thread."""
        return self.cache.is_clearing or (self._io is not None and self._io.is_maintaining)

    def close(self) -> None:
        """What is still to be written gets a moment."""
        if self._io is not None and not self._io.close(wait_seconds=_CLOSE_SECONDS):
            logger.warning("the cache's writer was still busy at the end")
            return  # with the lock: it ends with the process
        self._keeper.close(wait_seconds=_CLOSE_SECONDS)
        if self._lock is not None:
            self._lock.release()


def _take(folder: Path) -> FolderLock | None:
    """None where another engine has it, or it cannot be used."""
    try:
        return FolderLock(folder)
    except OSError as error:
        logger.error("no disk cache", extra={"error": str(error)})
        return None


def _open_disk(config: EngineConfig, directory: Path, files: Files | None) -> DiskTier | None:
    """None when it is switched off, and then what it kept is deleted: nobody else would hear that
    a part of it is to be forgotten. None, too, where the folder cannot be used."""
    if 0 in (config.cache_disk_bytes, config.cache_memory_bytes):  # all comes through memory
        shutil.rmtree(directory, ignore_errors=True)
        return None
    try:
        limits = DiskLimits(
            budget_bytes=_disk_budget(config, directory),
            free_floor_bytes=_FREE_FLOOR_BYTES,
            daily_write_bytes=config.cache_daily_write_bytes,
        )
        return DiskTier(directory, limits, now=time.monotonic, today=_today, files=files)
    except OSError as error:
        logger.error("no disk cache", extra={"error": str(error)})
        return None


def _disk_budget(config: EngineConfig, directory: Path) -> int:
    if config.cache_disk_bytes is not None:
        return config.cache_disk_bytes
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return min(_LARGEST_DISK_BYTES, int(shutil.disk_usage(directory).free * _DISK_SHARE))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()

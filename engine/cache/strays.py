"""Files in the cache's folder that nobody knows: found by their names, a few at a time.

They come from processes that died while writing and from indexes that were lost, or laid files out
otherwise. Only names that the disk tier gives are looked at; whatever else lies in the folder is
somebody else's business.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.cache.record import Kind, RecordKey

TEMPORARY = ".tmp"
NAMES_AT_ONCE = 64
_FOLDER_NAME = re.compile(r"[0-9a-f]{1,2}")
_RECORD_NAME = re.compile(rf"([0-9a-f]{{64}})\.({'|'.join(Kind)})")
_TEMPORARY_NAME = re.compile(rf"([0-9a-f]{{16}})-\d+{re.escape(TEMPORARY)}")


class Strays:
    def __init__(
        self, directory: Path, *, own_prefix: str, is_in_place: Callable[[Path, RecordKey], bool]
    ) -> None:
        self._directory = directory
        self._own_prefix = own_prefix
        self._is_in_place = is_in_place
        self._names: Iterator[Path] = iter(())
        self._is_new = True

    def look_on(self) -> tuple[list[Path], bool]:
        """Strays among the next names, and whether these were the last. Then it starts again."""
        if self._is_new:
            self._names = self._walk()
        paths = list(itertools.islice(self._names, NAMES_AT_ONCE))
        self._is_new = len(paths) < NAMES_AT_ONCE
        return [path for path in paths if self._is_stray(path)], self._is_new

    def _walk(self) -> Iterator[Path]:
        """Lazily: a folder of 100,000 files is never listed at once."""
        folders = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if _FOLDER_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield Path(entry.path)
        for folder in folders:
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                yield from (Path(entry.path) for entry in entries)

    def _is_stray(self, path: Path) -> bool:
        if (temporary := _TEMPORARY_NAME.fullmatch(path.name)) is not None:
            return temporary[1] != self._own_prefix
        if (record := _RECORD_NAME.fullmatch(path.name)) is not None:
            key = RecordKey(bytes.fromhex(record[1]), Kind(record[2]))
            return not self._is_in_place(path, key)
        return False

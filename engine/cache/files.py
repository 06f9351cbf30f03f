"""The disk tier's few file operations, behind one seam: tests record them and make them fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None: ...
    def rename(self, source: Path, target: Path) -> None: ...
    def read(self, path: Path) -> bytes: ...
    def unlink(self, path: Path) -> None: ...
    def free_bytes(self, directory: Path) -> int: ...


class RealFiles:
    """New files are for the owner only (0600) and are refused where something already is."""

    def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            for piece in pieces:
                view = memoryview(piece).cast("B")
                while view:
                    view = view[file.write(view) :]

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def read(self, path: Path) -> bytes:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
            return file.readall()

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def free_bytes(self, directory: Path) -> int:
        return shutil.disk_usage(directory).free

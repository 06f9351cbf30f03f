"""The disk tier's few file operations, behind one seam: tests record them and make them fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

_MOST_PIECES = 512  # in one call; systems allow 1024


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
        left = [memoryview(piece).cast("B") for piece in pieces]
        with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            while left:
                left = _behind(left, os.writev(file.fileno(), left[:_MOST_PIECES]))

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def read(self, path: Path) -> bytes:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
            return file.readall()

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def free_bytes(self, directory: Path) -> int:
        return shutil.disk_usage(directory).free


def _behind(pieces: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    """What is left of them after so many bytes; nothing that is empty."""
    left = []
    for piece in pieces:
        gone = min(num_bytes, len(piece))
        num_bytes -= gone
        if gone < len(piece):
            left.append(piece[gone:])
    return left

"""The bytes of files in the data folder: `files/<id>`, and `<id>.part` while they are written."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.conf import settings

from hosting.actions.refusals import Refusal

_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(Refusal):
    """The server's disk has no room for this. An administrator can make some."""

    def __init__(self) -> None:
        assert self.__doc__ is not None
        super().__init__("storage_full", self.__doc__, status=507)


def path_of(file_id: uuid.UUID) -> Path:
    return _folder() / file_id.hex


def part_of(file_id: uuid.UUID) -> Path:
    return _folder() / f"{file_id.hex}.part"


def write(file_id: uuid.UUID, chunks: Iterable[bytes]) -> None:
    """All of them, safe from a loss of power, or no file at all. Raises DiskFull."""
    with _refusing_full_disk(), contextlib.ExitStack() as unless_written:
        make_folder()
        unless_written.callback(delete, [file_id])
        with open(part_of(file_id), "wb", opener=_for_us_alone) as part:
            part.writelines(chunks)
            part.flush()
            os.fsync(part.fileno())
        publish(file_id)
        unless_written.pop_all()


def append(file_id: uuid.UUID, after: int, data: bytes) -> int:
    """Add to what is being written, after its first `after` bytes: what came later was never
    counted. How many there are then. Raises DiskFull."""
    with _refusing_full_disk():
        make_folder()
        with open(part_of(file_id), "r+b", opener=None if after else _for_us_alone) as part:
            part.truncate(after)
            part.seek(after)
            part.write(data)
            part.flush()
            os.fsync(part.fileno())
    return after + len(data)


def publish(file_id: uuid.UUID) -> None:
    """What was written gets its name. A second time it changes nothing."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(part_of(file_id), path_of(file_id))
    sync(_folder())


def sync(folder: Path) -> None:
    """The names in it are safe from a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(file_ids: Iterable[uuid.UUID]) -> None:
    for file_id in file_ids:
        path_of(file_id).unlink(missing_ok=True)
        part_of(file_id).unlink(missing_ok=True)


def check_room(num_bytes: int) -> None:
    """Raises DiskFull where less than MIN_FREE_DISK_BYTES would be left."""
    make_folder()
    if shutil.disk_usage(_folder()).free - num_bytes < settings.MIN_FREE_DISK_BYTES:
        raise DiskFull


def stored_ids(*, untouched_since: float) -> Iterator[uuid.UUID]:
    """Of the files that lie here and that nobody has written to since."""
    if not _folder().is_dir():
        return
    for path in _folder().iterdir():
        with contextlib.suppress(ValueError, FileNotFoundError):
            if path.stat().st_mtime < untouched_since:
                yield uuid.UUID(path.stem)


def make_folder() -> None:
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "files"


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


@contextlib.contextmanager
def _refusing_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull from error
        raise

"""The folder of a fetched model on the disk: what is fetched of it lies beside it until complete.

    models/org--name.part   what there is until now
    models/org--name        complete
    models/org--name.old    what was there before, while the two are exchanged

Only who has the lock of a folder touches these. It knows no rows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hosting.actions import file_bytes
from hosting.actions.process_locks import locked

_PART, _OLD = ".part", ".old"
_METADATA = ".metadata"  # the library's own, which it writes again in place
_INCOMPLETE = "*.incomplete"


def locked_folder(folder: Path) -> contextlib.AbstractContextManager[IO[str] | None]:
    """None where somebody else has it."""
    return locked(_beside(folder, ".lock"))


def part_of(folder: Path) -> Path:
    return _beside(folder, _PART)


def begin_part(folder: Path) -> None:
    """With the complete files of an earlier fetch: only what has changed since is fetched again."""
    part = part_of(folder)
    _end_exchange(folder)
    if folder.is_dir() and not part.exists():
        with contextlib.suppress(shutil.Error):  # what cannot be linked is fetched
            shutil.copytree(folder, part, symlinks=True, copy_function=_link)
    _drop_incomplete(part)


def publish_part(folder: Path) -> None:
    old = _beside(folder, _OLD)
    if folder.exists():
        folder.rename(old)
    part_of(folder).rename(folder)
    file_bytes.sync(folder.parent)


def clear_away(folder: Path, *, is_wanted: bool) -> None:
    """What was there before, files that are not complete; of what nobody wants, all that was
    fetched."""
    _end_exchange(folder)
    if is_wanted:
        _drop_incomplete(part_of(folder))
    else:
        shutil.rmtree(part_of(folder), ignore_errors=True)


def folders_with_leavings(models: Path) -> Iterator[Path]:
    """Two dashes in a row: none of a quantised copy."""
    for path in sorted(models.glob("*--*")):
        if path.suffix in (_PART, _OLD):
            yield path.with_suffix("")


def present_bytes(folder: Path) -> int:
    return sum(map(_size, folder.rglob("*")))


def _drop_incomplete(part: Path) -> None:
    """The library never goes on with one, and a process that is killed leaves its own."""
    for path in part.rglob(_INCOMPLETE):
        path.unlink()


def _end_exchange(folder: Path) -> None:
    """Where a process was killed in it, what was there before is there again."""
    old = _beside(folder, _OLD)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(folder)


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:  # it was complete, and has another name now
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _link(source: str, target: str) -> None:
    if source.endswith(_METADATA):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(folder.name + suffix)

"""The folder with everything an installation keeps: there, writable, and nobody else's to read."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_KEPT = (
    "cache",
    "db.sqlite3",
    "estimates",
    "files",
    "logs",
    "models",
    "redis",
    "run",
    "secret_key",
)


def prepare_data_folder(folder: Path) -> None:
    """Make it, and let no file that this process makes from now on be open to others.

    The folder may have been made by somebody else, open to all; conversations must not be.
    """
    if not _is_utf8(folder):
        raise ImproperlyConfigured(
            f"The path of the data folder {folder} is not UTF-8. Name another by HEARTH_DATA_DIR."
        )
    os.umask(0o077)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for database in folder.glob("db.sqlite3*"):
            _close_to_others(database)
    except OSError as error:
        raise ImproperlyConfigured(_refusal(folder, error.strerror)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(_refusal(folder, "it is read-only for this user"))
    # As after a command that root gave there
    if closed := [one for one in _KEPT if not _is_open_to_us(folder / one)]:
        raise ImproperlyConfigured(_refusal(folder, f"{closed[0]} in it is another user's"))


def _is_open_to_us(path: Path) -> bool:
    return os.access(path, os.R_OK) or not os.path.exists(path)


def _is_utf8(path: Path) -> bool:
    """Redis and SQLite are told it as text."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _close_to_others(path: Path) -> None:
    """SQLite gives the files beside a database the database's own mode."""
    mode = path.stat().st_mode
    if mode & 0o077 and path.stat().st_uid == os.getuid():
        path.chmod(mode & 0o700)


def _refusal(folder: Path, reason: str | None) -> str:
    return (
        f"The data folder {folder} cannot be used: {reason}. "
        "Make it writable for this user, or name another one by HEARTH_DATA_DIR."
    )

"""Who moves what SQLite has logged into the database.

Transactions are appended to a log; once it is long, the connection whose transaction has just ended
moves it into the database's file, with two calls of fsync: 5 to 50 ms, in which a process's other
writers wait for their turn. The ledger writes after every answer and nobody waits for it, so it
does that first; the others only where it is away for long, from ten times as many pages on.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_FEW_PAGES = 1_000  # of 4 KiB


def move_early() -> None:
    """This process moves a log that is not long yet; from its next connection on."""
    connection_created.connect(_move_early)
    connection.close()


def _move_early(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.cursor().execute(f"PRAGMA wal_autocheckpoint={_FEW_PAGES}")

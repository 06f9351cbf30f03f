"""Transactions on SQLite take turns.

SQLite lets one write at a time; who finds it taken sleeps and asks again, up to a tenth of a second
later. Between the threads of one process a lock wakes the next one at once: of eight requests that
come together the last one waits for seven short transactions, not for naps. For other processes
the next one in turn looks every millisecond.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

_NAP_SECONDS = 0.001
_turn = threading.Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes the turn before BEGIN; gives it back when Django leaves the transaction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_turn = ExitStack()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """On macOS fsync does not reach the disk's own cache, which may write the database's pages
        behind those of the next log. Only who moves the log (log.py) waits until they are there."""
        connection = super().get_new_connection(conn_params)
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _start_transaction_under_autocommit(self) -> None:
        seconds = self.settings_dict["OPTIONS"].get("timeout", 5)
        until = monotonic() + seconds
        with ExitStack() as unless_begun:
            # Who waits in vain hears from SQLite that it is locked
            if _turn.acquire(timeout=seconds):
                unless_begun.callback(_turn.release)
            with self._asking_once(seconds):
                self._begin_before(until)
            self._held_turn = unless_begun.pop_all()

    @contextmanager
    def _asking_once(self, seconds: float) -> Iterator[None]:
        """SQLite says at once that it is locked; afterwards it asks again for so many seconds."""
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def _begin_before(self, until: float) -> None:
        while True:
            try:
                super()._start_transaction_under_autocommit()
                return
            except OperationalError as error:
                if not _is_locked(error) or monotonic() >= until:
                    raise
            sleep(_NAP_SECONDS)

    def _set_autocommit(self, autocommit: bool) -> None:
        try:
            super()._set_autocommit(autocommit)
        finally:
            if autocommit:
                self._held_turn.close()

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            self._held_turn.close()


def _is_locked(error: OperationalError) -> bool:
    cause = error.__cause__
    return (
        isinstance(cause, sqlite3.OperationalError)
        and cause.sqlite_errorcode == sqlite3.SQLITE_BUSY
    )

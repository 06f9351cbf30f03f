"""A process's transactions on SQLite take turns.

SQLite lets one write at a time; who finds it taken sleeps and asks again, up to a tenth of a second
later. Between the threads of one process a lock wakes the next one at once: of eight requests that
come together the last one waits for seven short transactions, not for naps. Other processes are
still waited for as SQLite does it.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

from django.db.backends.sqlite3 import base

_turn = threading.Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes the turn before BEGIN; gives it back when Django leaves the transaction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_turn = ExitStack()

    def _start_transaction_under_autocommit(self) -> None:
        seconds = self.settings_dict["OPTIONS"].get("timeout", 5)
        with ExitStack() as unless_begun:
            # Who waits in vain hears from SQLite that it is locked
            if _turn.acquire(timeout=seconds):
                unless_begun.callback(_turn.release)
            super()._start_transaction_under_autocommit()
            self._held_turn = unless_begun.pop_all()

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

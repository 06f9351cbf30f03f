"""A database that does not do what it is told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from django.db import OperationalError
from django.db.backends.utils import CursorWrapper


def full_disk() -> contextlib.AbstractContextManager[list[str]]:
    """Inside, every INSERT fails, in every thread."""
    return _failing("INSERT", "database or disk is full")


def lost_database() -> contextlib.AbstractContextManager[list[str]]:
    """Inside, every statement fails, in every thread. Gives those that did."""
    return _failing("", "the connection was lost")


@contextlib.contextmanager
def _failing(beginning: str, complaint: str) -> Iterator[list[str]]:
    failed: list[str] = []

    def refusing(execute: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(self: CursorWrapper, sql: str, *arguments: Any) -> Any:
            if sql.startswith(beginning):
                failed.append(sql)
                raise OperationalError(complaint)
            return execute(self, sql, *arguments)

        return refuse

    with contextlib.ExitStack() as patches:
        for name in ("execute", "executemany"):
            refuse = refusing(getattr(CursorWrapper, name))
            patches.enter_context(patch.object(CursorWrapper, name, refuse))
        yield failed

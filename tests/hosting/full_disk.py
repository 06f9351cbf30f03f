"""A database that cannot write, as on a full disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from django.db import OperationalError, connection


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Inside, every INSERT of this thread's connection fails."""

    def refuse(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if sql.startswith("INSERT"):
            raise OperationalError("database or disk is full")
        return execute(sql, *arguments)

    with connection.execute_wrapper(refuse):
        yield

"""A database that cannot write, as on a full disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from django.db import OperationalError
from django.db.backends.utils import CursorWrapper


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Inside, every INSERT fails, in every thread."""
    execute = CursorWrapper.execute

    def refuse(self: CursorWrapper, sql: str, *arguments: Any) -> Any:
        if sql.startswith("INSERT"):
            raise OperationalError("database or disk is full")
        return execute(self, sql, *arguments)

    with patch.object(CursorWrapper, "execute", refuse):
        yield

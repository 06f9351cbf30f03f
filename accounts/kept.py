"""Keeps what was read of settings for half a second: a busy service asks for them once in it.

Whoever changes settings sees them at once, for pages read the rows; requests see them within that
time, in every process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from django.conf import settings

T = TypeVar("T")

_MOST = 10_000


class Kept(Generic[T]):
    """Values by name. May be used from any thread; what is handed out must not be changed."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[float, T]] = {}

    def get(self, name: Hashable, read: Callable[[], T]) -> T:
        """What `read` returned a moment ago. What it raises is not kept."""
        seconds = settings.SETTINGS_KEPT_SECONDS
        if not seconds:
            return read()
        now = time.monotonic()
        known = self._found.get(name)
        if known is not None and now - known[0] < seconds:
            return known[1]
        value = read()
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[name] = now, value
        return value

    def forget(self) -> None:
        """In this process; the others do in a moment."""
        self._found.clear()

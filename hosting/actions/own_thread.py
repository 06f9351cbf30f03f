"""Database work called from async code, in a thread of its own that leaves no connection open.

Channels' and Django's way is one thread for all: right for a request, too slow for many sockets,
and gone when a request is being cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

P = ParamSpec("P")
R = TypeVar("R")


def in_own_thread(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return sync_to_async(run, thread_sensitive=False)

"""Database work called from async code: a few threads that keep their connections.

Django's way under ASGI is a thread for each request, and with it a new connection, which costs more
than the queries. A request that is being cancelled has no thread at all.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
R = TypeVar("R")

NUM_THREADS = 8
KEEP_SECONDS = 60

_kept: list[BaseDatabaseWrapper] = []


def in_database_thread(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _check_connections()
        try:
            return function(*args, **kwargs)
        finally:
            _check_connections()

    return sync_to_async(run, thread_sensitive=False, executor=_threads)


def close_kept_connections() -> None:
    """Of all threads, which must be idle. They open new ones when they need them."""
    for connection in _kept:
        connection.close()


def _begin_thread() -> None:
    for connection in connections.all():
        connection.settings_dict = {
            **connection.settings_dict,
            "CONN_MAX_AGE": KEEP_SECONDS,
            "CONN_HEALTH_CHECKS": True,
        }
        connection.inc_thread_sharing()  # so that others may close it
        _kept.append(connection)


def _check_connections() -> None:
    """Close what failed or is old: the database's server may have gone away."""
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()


_threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="database", initializer=_begin_thread)

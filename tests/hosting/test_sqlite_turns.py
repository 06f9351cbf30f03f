"""Transactions of one process wait for each other in a queue, not by SQLite's polling."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows"),
]

NUM_THREADS, NUM_TURNS = 8, 20


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(NUM_THREADS) as executor:
        yield executor
        for _ in range(NUM_THREADS):
            executor.submit(connection.close)


def _refuse_to_poll() -> None:
    """SQLite reports a taken lock at once instead of asking again later."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")


def test_threads_write_without_polling(threads: ThreadPoolExecutor) -> None:
    def write(number: int) -> None:
        _refuse_to_poll()
        for turn in range(NUM_TURNS):
            with transaction.atomic():
                Group.objects.create(name=f"{number}-{turn}")

    list(threads.map(write, range(NUM_THREADS)))
    assert Group.objects.count() == NUM_THREADS * NUM_TURNS


def test_a_transaction_that_fails_gives_the_turn_back(threads: ThreadPoolExecutor) -> None:
    def fail() -> None:
        with transaction.atomic():
            Group.objects.create(name="never")
            raise ValueError

    with pytest.raises(ValueError):
        threads.submit(fail).result()
    _refuse_to_poll()
    with transaction.atomic():
        Group.objects.create(name="kept")
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


def test_a_connection_closed_midway_gives_the_turn_back(threads: ThreadPoolExecutor) -> None:
    def leave() -> None:
        with transaction.atomic():
            Group.objects.create(name="never")
            connection.close()

    threads.submit(leave).result()
    _refuse_to_poll()
    with transaction.atomic():
        Group.objects.create(name="kept")
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


def test_who_waits_too_long_hears_that_it_is_locked(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_beside() -> None:
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.05)
        with transaction.atomic():
            Group.objects.create(name="beside")

    with transaction.atomic():
        Group.objects.create(name="first")
        with pytest.raises(OperationalError, match="locked"):
            threads.submit(write_beside).result()
    assert list(Group.objects.values_list("name", flat=True)) == ["first"]

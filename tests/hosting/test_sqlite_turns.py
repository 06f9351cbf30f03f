"""Transactions wait for each other in turns, not by SQLite's polling."""

from __future__ import annotations

import subprocess
import sys
import time
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
HOLDS = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("holds", flush=True)
time.sleep(0.24)
ends_at = time.monotonic()
connection.execute("COMMIT")
print(ends_at, flush=True)
"""


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(NUM_THREADS) as executor:
        yield executor
        for _ in range(NUM_THREADS):
            executor.submit(connection.close)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those of who waits for another process."""
    naps: list[float] = []
    monkeypatch.setattr("hosting.sqlite.base.sleep", naps.append)
    return naps


def test_threads_write_without_polling(threads: ThreadPoolExecutor, naps: list[float]) -> None:
    def write(number: int) -> None:
        for turn in range(NUM_TURNS):
            with transaction.atomic():
                Group.objects.create(name=f"{number}-{turn}")

    list(threads.map(write, range(NUM_THREADS)))
    assert Group.objects.count() == NUM_THREADS * NUM_TURNS
    assert not naps


def test_a_transaction_that_fails_gives_the_turn_back(
    threads: ThreadPoolExecutor, naps: list[float]
) -> None:
    def fail() -> None:
        with transaction.atomic():
            Group.objects.create(name="never")
            raise ValueError

    with pytest.raises(ValueError):
        threads.submit(fail).result()
    with transaction.atomic():
        Group.objects.create(name="kept")
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]
    assert not naps


def test_a_connection_closed_midway_gives_the_turn_back(
    threads: ThreadPoolExecutor, naps: list[float]
) -> None:
    def leave() -> None:
        with transaction.atomic():
            Group.objects.create(name="never")
            connection.close()

    threads.submit(leave).result()
    with transaction.atomic():
        Group.objects.create(name="kept")
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]
    assert not naps


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


def _seconds_late(process: subprocess.Popen[str], name: str) -> float:
    """How long after another process ends its transaction ours begins."""
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    with transaction.atomic():
        begun_at = time.monotonic()
        Group.objects.create(name=name)
    return begun_at - float(process.stdout.readline())


def test_another_process_is_waited_for_no_longer_than_it_writes() -> None:
    """SQLite looks 0.228 and 0.328 s after it found itself locked."""
    lates = []
    for number in range(3):
        command = [sys.executable, "-c", HOLDS, str(connection.settings_dict["NAME"])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            lates.append(_seconds_late(process, f"ours {number}"))
    assert 0 <= min(lates) < 0.03
    assert Group.objects.count() == 3


def test_what_writes_without_a_transaction_still_asks_again() -> None:
    with transaction.atomic():
        Group.objects.create(name="one")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (connection.settings_dict["OPTIONS"]["timeout"] * 1000,)

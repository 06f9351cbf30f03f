"""No request moves SQLite's log into the database while somebody waits for it; the ledger does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.utils import timezone

from hosting.management.commands.consume_ledger import LedgerConsumer
from hosting.sqlite import log

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a checkpointer"),
]


@pytest.fixture
def database() -> Iterator[Path]:
    """The database's file, with nothing logged besides."""
    connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    yield Path(connection.settings_dict["NAME"])
    connection_created.disconnect(log._move_early)
    connection.close()


def write(num_pages: int, *, name: str) -> None:
    for number in range(num_pages):
        with transaction.atomic():
            Session.objects.create(
                session_key=f"{name}-{number}",
                session_data="x" * 4096,
                expire_date=timezone.now(),
            )


def test_only_the_ledger_moves_a_log_that_is_not_long(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = database.stat().st_size
    write(600, name="asked")
    assert database.stat().st_size == size

    monkeypatch.setattr(LedgerConsumer, "run", lambda _: write(1, name="settled"))
    call_command("consume_ledger")
    assert database.stat().st_size >= size + 600 * 4096


def test_moving_the_log_waits_for_a_macs_disk() -> None:
    """Asked for on every system, obeyed on macOS: there fsync leaves to the disk what it writes
    when, and a power cut may find a new log beside pages of before it."""
    assert connection.cursor().execute("PRAGMA checkpoint_fullfsync").fetchone() == (1,)


def test_a_long_log_is_moved_where_there_is_no_ledger(database: Path) -> None:
    size = database.stat().st_size
    write(4_000, name="asked")
    assert database.stat().st_size > size

"""The audit record: whole when nobody touched it, and every touch is found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections

from accounts import audit
from accounts.models import AppendOnly, AuditHead, AuditRecord, User

TABLE = AuditRecord._meta.db_table
HEAD = AuditHead._meta.db_table


def run_sql(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


@pytest.fixture
def three_records(person: User) -> list[AuditRecord]:
    return [
        audit.record("limit.change", actor=person, target=name, before={"a": 1}, after={"a": 2.5})
        for name in ("one", "two", "three")
    ]


def test_a_record_says_who_from_where_what_and_what_changed(person: User) -> None:
    audit.record(
        "person.change",
        actor=person,
        address="10.0.0.7",
        target="Eve",
        **audit.changes({"name": "E", "role": "member"}, {"name": "E", "role": "administrator"}),
    )
    found = AuditRecord.objects.get()
    assert (found.actor, found.address, found.target) == ("ada@example.org", "10.0.0.7", "Eve")
    assert found.before == '{"role": "member"}'
    assert found.after == '{"role": "administrator"}'


def test_secrets_are_not_kept(person: User) -> None:
    audit.record("person.change", actor=person, after={"password": "argon2$abc"})
    assert "argon2" not in AuditRecord.objects.get().after


def test_an_untouched_chain_is_whole(three_records: list[AuditRecord]) -> None:
    verdict = audit.verify()
    assert (verdict.num_records, verdict.fault) == (3, None)


def test_records_of_an_older_secret_key_count(
    three_records: list[AuditRecord], settings: Any
) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"
    audit.record("key.revoke", actor=None)
    assert audit.verify().fault is None


@pytest.mark.parametrize(
    "column", ["actor", "address", "action", "target", "before", "after", "mark"]
)
def test_an_edit_is_found(three_records: list[AuditRecord], column: str) -> None:
    run_sql(f"UPDATE {TABLE} SET {column} = 'x' WHERE number = 2")
    assert "2" in str(audit.verify().fault)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_removal_is_found(three_records: list[AuditRecord], number: int) -> None:
    run_sql(f"DELETE FROM {TABLE} WHERE number = %s", number)
    assert "missing" in str(audit.verify().fault)


def test_removing_the_end_and_its_head_is_found_by_a_head_from_the_log(
    three_records: list[AuditRecord],
) -> None:
    last = audit.verify().head
    run_sql(f"DELETE FROM {TABLE} WHERE number = 3")
    run_sql(f"UPDATE {HEAD} SET number = 2, mark = %s", three_records[1].mark)
    assert audit.verify().fault is None
    assert "not in the chain" in str(audit.verify(known_head=last).fault)


def test_rows_cannot_be_changed_or_removed_by_mistake(three_records: list[AuditRecord]) -> None:
    attempts: list[Callable[[], Any]] = [
        three_records[0].save,
        three_records[0].delete,
        AuditRecord.objects.all().delete,
        lambda: AuditRecord.objects.update(actor="x"),
    ]
    for attempt in attempts:
        with pytest.raises(AppendOnly):
            attempt()


@pytest.mark.django_db(transaction=True)
def test_simultaneous_records_make_one_chain() -> None:
    def add() -> None:
        for _ in range(5):
            audit.record("sign-in.fail", actor=None)
        connections.close_all()

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = audit.verify()
    assert (verdict.num_records, verdict.fault) == (40, None)


def test_the_command_fails_when_something_was_changed(
    three_records: list[AuditRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("verify_audit")
    assert "3 records" in capsys.readouterr().out
    run_sql(f"UPDATE {TABLE} SET target = 'x' WHERE number = 1")
    with pytest.raises(CommandError):
        call_command("verify_audit")

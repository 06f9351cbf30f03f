"""The search of long lists in the administration: by whose a row is, its model or its id."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import audit
from accounts.keys import create_api_key
from accounts.models import ApiKey, UsageRecord, User
from accounts.rollups import roll_up_what_is_new
from hosting.models import Generation

LISTS = (
    "/admin/hosting/generation/",
    "/admin/accounts/usagerecord/",
    "/admin/accounts/hourlyusage/",
)


@pytest.fixture
def admin_page(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


@pytest.fixture
def key(person: User, stranger: User) -> ApiKey:
    """A generation of Ada's with her key, and one of Eve's without."""
    key = create_api_key(user=person, name="laptop")[0]
    for user, api_key, model in ((person, key, "demo"), (stranger, None, "other")):
        shared: dict[str, Any] = {"user": user, "api_key": api_key, "model_name": model}
        row = Generation.objects.create(kind="api", state="done", **shared)
        UsageRecord.objects.create(generation_id=row.pk, end="stop", **shared)
    roll_up_what_is_new()
    return key


def found(browser: Client, url: str, term: str) -> list[str]:
    return [row.model_name for row in browser.get(url, {"q": term}).context["cl"].result_list]


@pytest.mark.parametrize("url", LISTS)
def test_rows_are_found_by_person_key_and_model(admin_page: Client, key: ApiKey, url: str) -> None:
    for term in ("ada@example.org", "ada@", "Ada", key.prefix, "laptop", "demo"):
        assert found(admin_page, url, term) == ["demo"], term
    assert found(admin_page, url, "example.org") == []  # whose of the two?
    assert len(found(admin_page, url, "")) == 2


def test_a_generation_is_found_by_its_id(admin_page: Client, key: ApiKey) -> None:
    for row in Generation.objects.all():
        assert found(admin_page, LISTS[0], f" {row.pk} ") == [row.model_name]
    assert found(admin_page, LISTS[0], str(uuid.uuid4())) == []


def test_a_record_is_found_by_a_whole_word_or_among_the_latest_by_a_part(
    admin_page: Client, person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.admin.audit.LATEST", 2)
    for target in ("first key", "second key", "third key"):
        audit.record("key.revoke", actor=person, address="192.0.2.7", target=target)

    def targets(term: str) -> list[str]:
        answer = admin_page.get("/admin/accounts/auditrecord/", {"q": term})
        return [record.target for record in answer.context["cl"].result_list]

    everything = ["third key", "second key", "first key"]
    for term in ("Ada@example.org", "key.revoke", " 192.0.2.7 "):
        assert targets(term) == everything
    assert targets("first key") == ["first key"]
    assert targets("key") == targets("key.re") == everything[:2]
    assert targets("nothing like it") == []


@pytest.mark.parametrize("state", ["failed", "cancelled", "queued"])
def test_a_rare_state_is_found_by_an_index(admin_page: Client, key: ApiKey, state: str) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL walks over short tables")
    with CaptureQueriesContext(connection) as asked:
        admin_page.get(LISTS[0], {"state__exact": state})
    [listed] = [
        one["sql"] for one in asked if "ORDER BY" in one["sql"] and "decode_s" in one["sql"]
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {listed}")
        plan = " ".join(row[3] for row in cursor.fetchall())
    assert "generations_by_state" in plan and "B-TREE" not in plan

"""My data: all of it in one file; deleted, nothing of it is left."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.keys import create_api_key
from accounts.models import AuditRecord, UsageRecord, User
from engine.transport.connection import connect
from hosting.actions.files import store_file
from hosting.models import Conversation, Generation, HostedModel, Message
from tests.hosting.scripted_engine import ScriptedEngine

URL = "/accounts/data/"


@pytest.fixture
def talked(page: Client, person: User, model: HostedModel) -> None:
    create_api_key(user=person, name="laptop")
    page.post("/chat/messages", {"content": "My secret"}, content_type="application/json")
    UsageRecord.objects.create(
        generation_id=uuid.uuid4(), user=person, model_name="demo", end="stop"
    )


def test_the_file_holds_everything_but_secrets(page: Client, talked: None) -> None:
    response = page.get(f"{URL}export")
    data = json.loads(response.content)
    assert "attachment" in response["Content-Disposition"]
    assert data["conversations"][0]["messages"][0]["content"] == "My secret"
    assert data["api_keys"][0]["name"] == "laptop"
    assert len(data["usage"]) == 1
    assert "key_hash" not in response.content.decode()


def test_the_file_tells_what_files_there_are(
    page: Client, person: User, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path
    kept = store_file(person, [b"{}"], filename="requests.jsonl", num_bytes=2)
    (told,) = json.loads(page.get(f"{URL}export").content)["files"]
    assert told == {
        "id": kept.public_id,
        "created_at": kept.created_at.isoformat(),
        "purpose": "batch",
        "filename": "requests.jsonl",
        "num_bytes": 2,
    }


def test_another_person_gets_their_own_file(strangers_page: Client, talked: None) -> None:
    assert "My secret" not in strangers_page.get(f"{URL}export").content.decode()


def test_after_deletion_nothing_is_left(
    page: Client, person: User, talked: None, redis_url: str, engine: ScriptedEngine
) -> None:
    response = page.post(URL, {"email": "ADA@example.org "})
    assert response["Location"] == "/accounts/sign-in/"
    assert not User.objects.filter(pk=person.pk).exists()
    for model in (Conversation, Message, Generation):
        assert not model.objects.exists()
    assert UsageRecord.objects.get().user is None
    assert AuditRecord.objects.filter(action="person.delete").exists()
    notices = connect(redis_url).xrange("hearth:forget")
    assert any("ForgetTenant" in fields["m"] for _, fields in notices)


def test_a_slip_deletes_nothing(page: Client, person: User) -> None:
    assert "not your e-mail" in page.post(URL, {"email": "x"}).content.decode()
    assert User.objects.filter(pk=person.pk).exists()


def test_the_last_administrator_stays(person: User) -> None:
    person.is_superuser = True
    person.save()
    browser = Client()
    browser.force_login(person)
    response = browser.post(URL, {"email": person.email}, follow=True)
    assert "last administrator" in response.content.decode()
    assert User.objects.filter(pk=person.pk).exists()


def test_what_was_computed_is_forgotten_and_nothing_else(
    page: Client, person: User, talked: None, redis_url: str
) -> None:
    response = page.post(f"{URL}forget", follow=True)
    assert "is being deleted" in response.content.decode()
    notices = [fields["m"] for _, fields in connect(redis_url).xrange("hearth:forget")]
    assert any("ForgetTenant" in notice and f"user:{person.pk}" in notice for notice in notices)
    assert Conversation.objects.count() == 1
    assert AuditRecord.objects.filter(action="person.forget").exists()


def test_with_redis_away_it_is_said_that_nothing_was_cleared(page: Client, settings: Any) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    assert "cannot be reached" in page.post(f"{URL}forget", follow=True).content.decode()


def test_a_person_deleted_by_an_administrator_is_forgotten_as_well(
    person: User, talked: None, redis_url: str
) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    browser.post(f"/admin/accounts/user/{person.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk=person.pk).exists()
    notices = [fields["m"] for _, fields in connect(redis_url).xrange("hearth:forget")]
    assert any("ForgetTenant" in notice for notice in notices)
    record = AuditRecord.objects.get(action="person.delete")
    assert record.actor is not None

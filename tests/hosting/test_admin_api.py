"""Usage and live figures by API: for keys that administrators made for it, and to read only."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from accounts.forms import NewKeyForm
from accounts.keys import create_api_key
from accounts.models import UsageRecord, User
from accounts.rollups import roll_up_what_is_new
from hosting.models import Generation, HostedModel
from tests.hosting.scripted_engine import ScriptedEngine

ADDRESSES = ("/v1/admin/usage", "/v1/admin/live")
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def root(transactional_db: None) -> User:
    return User.objects.create_superuser("root@example.org", name="Root")


def caller(user: User, *scopes: str) -> Client:
    _, secret = create_api_key(user=user, name="monitor", scopes=scopes)
    return Client(headers={"authorization": f"Bearer {secret}"})


def test_everybodys_usage_is_told_by_person_model_and_key(root: User, person: User) -> None:
    UsageRecord.objects.create(
        generation_id=uuid.uuid4(), user=person, model_name="demo", prompt_tokens=70, end="stop"
    )
    roll_up_what_is_new()
    told: Any = caller(root, "admin_read").get("/v1/admin/usage", {"window": "day"}).json()
    assert (told["window"], told["total"]["prompt_tokens"]) == ("day", 70)
    names = [told[table][0]["name"] for table in ("people", "models", "keys")]
    assert names == ["Ada", "demo", "Chat page"]


@pytest.mark.parametrize("name", ["person", "group", "key", "window"])
@pytest.mark.parametrize("value", ["999", "research"])
def test_a_filter_that_names_nothing_is_refused(root: User, name: str, value: str) -> None:
    response = caller(root, "admin_read").get("/v1/admin/usage", {name: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == name


def test_a_filter_left_empty_asks_for_everybody(root: User) -> None:
    everybody = {"person": "", "group": "", "key": "", "window": ""}
    assert caller(root, "admin_read").get("/v1/admin/usage", everybody).status_code == 200


def test_open_requests_are_told_without_their_words(
    root: User, person: User, engine: ScriptedEngine
) -> None:
    Generation.objects.create(
        user=person, kind="chat", model_name="demo", tenant="t", priority="api",
        request="a secret question",
    )  # fmt: skip
    response = caller(root, "admin_read").get("/v1/admin/live")
    assert response.json()["requests"][0]["person"] == "Ada"
    assert b"secret" not in response.content


@pytest.mark.parametrize("url", ADDRESSES)
def test_a_key_must_be_made_for_it_by_an_administrator(url: str, root: User, person: User) -> None:
    assert caller(root).get(url).status_code == 403
    assert caller(person, "admin_read").get(url).status_code == 403
    monitor = caller(root, "admin_read")
    root.is_superuser = False
    root.save()
    assert monitor.get(url).status_code == 403


@pytest.mark.parametrize("url", ADDRESSES)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_changed_with_it(url: str, method: str, root: User) -> None:
    assert getattr(caller(root, "admin_read"), method)(url).status_code == 405


def test_a_key_to_read_with_asks_no_model(root: User, model: HostedModel) -> None:
    monitor = caller(root, "admin_read")
    response = monitor.post("/v1/chat/completions", CHAT, content_type="application/json")
    assert response.status_code == 403
    assert not Generation.objects.exists()


def test_only_administrators_are_offered_it(root: User, person: User) -> None:
    def offered(user: User) -> set[str]:
        return {value for value, _ in NewKeyForm(owner=user, models=[]).fields["use"].choices}

    assert offered(root) - offered(person) == {"admin_read"}
    forged = NewKeyForm({"name": "x", "use": "admin_read"}, owner=person, models=[])
    assert not forged.is_valid()

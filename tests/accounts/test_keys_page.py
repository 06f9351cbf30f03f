"""The keys page: one's own keys, the secret once, revoke after a question."""

from __future__ import annotations

import datetime

import pytest
from django.test import Client
from django.utils import timezone

from accounts.keys import ExpiredKey, check_api_key, create_api_key, rotate_api_key
from accounts.limits import allowance_of
from accounts.models import ApiKey, Quota, User
from hosting.models import HostedModel

URL = "/accounts/keys/"


def test_a_new_key_is_shown_once_with_examples_that_work(page: Client) -> None:
    response = page.post(URL, {"name": "laptop", "expires_in": ""}, SERVER_NAME="localhost")
    secret = response.context["secret"]
    assert response.status_code == 201
    assert check_api_key(secret).name == "laptop"
    text = response.content.decode()
    assert "http://localhost/v1/chat/completions" in text
    assert "hearth-demo" in text
    assert text.count(secret) == 3  # by itself, in curl, in Python
    assert "no-store" in response["Cache-Control"]
    assert secret not in page.get(URL).content.decode()


def test_a_key_may_expire(page: Client) -> None:
    page.post(URL, {"name": "short", "expires_in": "30"})
    expires_at = ApiKey.objects.get().expires_at
    assert expires_at is not None
    left = expires_at - timezone.now()
    assert datetime.timedelta(days=29) < left <= datetime.timedelta(days=30)


@pytest.mark.parametrize(
    "form", [{"name": ""}, {"name": "x" * 101}, {"name": "a", "expires_in": "9"}]
)
def test_a_bad_form_makes_no_key(page: Client, form: dict[str, str]) -> None:
    assert page.post(URL, form).status_code == 200
    assert not ApiKey.objects.exists()


def test_a_name_is_shown_as_text(page: Client) -> None:
    page.post(URL, {"name": "<script>alert(1)</script>"})
    assert b"<script>alert" not in page.get(URL).content


def test_the_list_shows_prefix_and_last_use_of_ones_own_keys_only(
    page: Client, person: User, stranger: User
) -> None:
    mine, _ = create_api_key(user=person, name="mine")
    theirs, _ = create_api_key(user=stranger, name="theirs")
    ApiKey.objects.update(last_used_at=timezone.now(), last_used_client="curl/8.5.0")
    text = page.get(URL).content.decode()
    assert mine.prefix in text and "curl/8.5.0" in text
    assert theirs.prefix not in text


def test_revoking_asks_first(page: Client, person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    url = f"{URL}{key.pk}/revoke/"
    assert "Revoke “laptop”?" in page.get(url).content.decode()
    key.refresh_from_db()
    assert not key.is_revoked
    assert page.post(url).url == URL
    key.refresh_from_db()
    assert key.is_revoked


def test_somebody_elses_key_is_not_there(page: Client, stranger: User) -> None:
    key, _ = create_api_key(user=stranger, name="theirs")
    assert page.post(f"{URL}{key.pk}/revoke/").status_code == 404
    key.refresh_from_db()
    assert not key.is_revoked


def test_replacing_a_key_shows_the_new_secret_once(page: Client, person: User) -> None:
    key, secret = create_api_key(user=person, name="laptop")
    url = f"/accounts/keys/{key.pk}/rotate/"
    assert "laptop" in page.get(url).content.decode()
    response = page.post(url, {"overlap_hours": 0})
    assert response.status_code == 201
    assert response.content.decode().count("sk-hearth-") and secret not in response.content.decode()
    with pytest.raises(ExpiredKey):
        check_api_key(secret)


def test_a_key_can_be_made_for_one_use(page: Client, person: User) -> None:
    page.post("/accounts/keys/", {"name": "search", "use": "vectors"})
    assert person.api_keys.get().scopes == ["vectors"]


def test_a_key_can_be_made_for_one_model_of_those_that_its_person_may_use(
    page: Client, person: User
) -> None:
    HostedModel.objects.create(name="small", path="/models/small")
    HostedModel.objects.create(name="large", path="/models/large")
    HostedModel.objects.create(name="mine", path="/models/mine", is_default=True)
    Quota.objects.create(user=person, allowed_models=["mine", "small"])
    html = page.get(URL).content.decode()
    assert '<option value="small">' in html and '<option value="large">' not in html
    assert page.post(URL, {"name": "greedy", "model": "large"}).status_code == 200
    created = page.post(URL, {"name": "laptop", "model": "small"})
    assert '"model": "small"' in created.content.decode()
    key = ApiKey.objects.get()
    limits = allowance_of(person, key).effective
    assert [name for name in ("small", "large", "mine") if limits.may_use(name)] == ["small"]
    assert "only small" in page.get(URL).content.decode()
    page.post(f"/accounts/keys/{key.pk}/rotate/", {"overlap_hours": 0})
    assert [one.models for one in ApiKey.objects.all()] == [["small"], ["small"]]


def test_somebody_elses_key_cannot_be_replaced(page: Client, stranger: User) -> None:
    key, _ = create_api_key(user=stranger, name="theirs")
    assert page.post(f"/accounts/keys/{key.pk}/rotate/", {"overlap_hours": 0}).status_code == 404


@pytest.mark.parametrize(("days", "is_told"), [(6, True), (8, False), (-1, False)])
def test_a_week_before_its_end_a_key_is_told_of(
    page: Client, person: User, days: int, is_told: bool
) -> None:
    at = timezone.now() + datetime.timedelta(days=days)
    key, _ = create_api_key(user=person, name="nightly", expires_at=at)
    assert key.expires_soon is is_told
    for url in (URL, "/"):
        assert (f"/{key.pk}/rotate/" in _notices(page, url)) is is_told
    rotate_api_key(key, overlap=datetime.timedelta(hours=1), by=person) if days > 0 else None
    assert f"/{key.pk}/rotate/" not in _notices(page, URL)


def _notices(page: Client, url: str) -> str:
    lines = page.get(url).content.decode().splitlines()
    return " ".join(line for line in lines if "notice" in line or "menu-warning" in line)

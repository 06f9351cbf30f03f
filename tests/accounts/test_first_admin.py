"""The first administrator: by a one-time URL or the environment, once, never by visiting first."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client

from accounts.first_admin import (
    SetupRefused,
    create_first_admin,
    ensure_admin_from_environment,
    new_setup_url,
)
from accounts.models import SetupToken, User

FORM = {
    "email": "Ada@Example.org",
    "name": "Ada",
    "password1": "correct horse 9",
    "password2": "correct horse 9",
}


def path_of(url: str | None) -> str:
    assert url is not None
    return url.removeprefix("http://hearth.local:8000")


@pytest.fixture
def setup_path(db: None) -> str:
    return path_of(new_setup_url("http://hearth.local:8000/"))


def token_of(path: str) -> str:
    return path.removeprefix("/setup/").strip("/")


def test_the_page_makes_the_administrator_and_signs_them_in(setup_path: str) -> None:
    browser = Client()
    assert browser.get(setup_path).status_code == 200
    assert browser.post(setup_path, FORM).url == "/"
    user = User.objects.get()
    assert (user.email, user.is_superuser, user.is_staff) == ("ada@example.org", True, True)
    assert browser.session["_auth_user_id"] == str(user.pk)


def test_the_url_works_once(setup_path: str) -> None:
    Client().post(setup_path, FORM)
    again = Client().post(setup_path, FORM | {"email": "eve@example.org"})
    assert again.status_code == 404
    assert User.objects.count() == 1


def test_a_wrong_token_makes_nobody(setup_path: str) -> None:
    assert Client().post("/setup/guessed/", FORM).status_code == 404
    assert not User.objects.exists()


def test_only_a_hash_of_the_token_is_stored(setup_path: str) -> None:
    assert token_of(setup_path) not in repr(SetupToken.objects.values())


def test_a_newer_url_voids_the_older_one(setup_path: str) -> None:
    newer = path_of(new_setup_url("http://hearth.local:8000"))
    assert Client().get(setup_path).status_code == 404
    assert Client().get(newer).status_code == 200


def test_there_is_no_url_once_there_is_an_administrator(setup_path: str) -> None:
    User.objects.create_superuser("root@example.org")
    assert new_setup_url("http://hearth.local:8000") is None
    assert Client().get(setup_path).status_code == 404


@pytest.mark.parametrize("password", ["short", "1234567890123", "password1234"])
def test_a_weak_password_is_refused(setup_path: str, password: str) -> None:
    form = FORM | {"password1": password, "password2": password}
    assert Client().post(setup_path, form).status_code == 200
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_visitors_at_once_one_becomes_administrator() -> None:
    token = token_of(path_of(new_setup_url("http://hearth.local:8000")))
    start, outcomes = threading.Barrier(6), []

    def visit(number: int) -> None:
        start.wait()
        try:
            create_first_admin(
                token, email=f"visitor{number}@example.org", name="", password="correct horse 9"
            )
            outcomes.append("made")
        except SetupRefused:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made", *["refused"] * 5]
    assert User.objects.count() == 1


def test_the_environment_makes_an_administrator_once(db: None, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEARTH_ADMIN_EMAIL", "Root@example.org")
    monkeypatch.setenv("HEARTH_ADMIN_PASSWORD", "from the environment")
    made = ensure_admin_from_environment()
    assert made is not None and made.check_password("from the environment")
    assert ensure_admin_from_environment() is None
    assert User.objects.administrators().get().email == "root@example.org"


@pytest.mark.parametrize(
    ("email", "password", "named"),
    [
        ("admin", "from the environment", "HEARTH_ADMIN_EMAIL"),
        ("root@example.org", "1", "HEARTH_ADMIN_PASSWORD"),
    ],
)
def test_who_could_not_sign_in_or_too_easily_is_not_made(
    db: None, monkeypatch: Any, email: str, password: str, named: str
) -> None:
    monkeypatch.setenv("HEARTH_ADMIN_EMAIL", email)
    monkeypatch.setenv("HEARTH_ADMIN_PASSWORD", password)
    with pytest.raises(ImproperlyConfigured, match=named):
        ensure_admin_from_environment()
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ("HEARTH_ADMIN_EMAIL", "HEARTH_ADMIN_PASSWORD"),
        ("HEARTH_ADMIN_PASSWORD", "HEARTH_ADMIN_EMAIL"),
    ],
)
def test_one_variable_without_the_other_is_told_while_it_would_count(
    db: None, monkeypatch: Any, there: str, missing: str
) -> None:
    monkeypatch.setenv(there, "root@example.org")
    with pytest.raises(ImproperlyConfigured, match=f"{missing} is not set"):
        ensure_admin_from_environment()
    assert not User.objects.exists()
    User.objects.create_superuser("admin@example.org")
    assert ensure_admin_from_environment() is None


def test_the_environment_raises_somebody_who_was_made_before(
    person: User, monkeypatch: Any
) -> None:
    User.objects.filter(pk=person.pk).update(is_service=True, is_superuser=True)
    monkeypatch.setenv("HEARTH_ADMIN_EMAIL", person.email)
    monkeypatch.setenv("HEARTH_ADMIN_PASSWORD", "from the environment")
    ensure_admin_from_environment()
    person.refresh_from_db()
    assert User.objects.administrators().get() == person and person.name == "Ada Park"

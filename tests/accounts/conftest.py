"""People and browsers for the account tests. All on the real database."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounts.models import User

PASSWORD = "correct horse 9"


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    """Argon2 is slow on purpose, and what is read is kept; no test here depends on either."""
    settings.SETTINGS_KEPT_SECONDS = 0
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_user("ada@example.org", PASSWORD, name="Ada Park")


@pytest.fixture
def stranger(db: None) -> User:
    return User.objects.create_user("eve@example.org", name="Eve")


@pytest.fixture
def administrator(db: None) -> User:
    return User.objects.create_superuser("root@example.org", name="Root")


@pytest.fixture
def page(person: User) -> Client:
    """Ada's browser."""
    return signed_in(person)


@pytest.fixture
def admin_page(administrator: User) -> Client:
    return signed_in(administrator)


def signed_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser

"""Signing in through the provider, as a browser does: there, consent, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.test import Client

from hosting.sign_in_settings import oidc_providers
from tests.accounts.oidc_provider import Provider, running_provider

START = "/accounts/oidc/"
CALLBACK = "/accounts/oidc/callback/"
GRACE = {"email": "grace@example.org", "email_verified": True, "name": "Grace Hopper"}


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    with running_provider() as started:
        yield started


@pytest.fixture
def provider(process: Provider, settings: Any, db: None) -> Provider:
    """Configured, well-behaved; unknown people are made."""
    process.misbehaves()
    use(process, settings)
    settings.OIDC_MAY_CREATE = True
    return process


def use(provider: Provider, settings: Any) -> None:
    client = provider.register(f"http://testserver{CALLBACK}")
    settings.SOCIALACCOUNT_PROVIDERS = oidc_providers(
        provider.issuer, client["client_id"], client["secret"], []
    )


def leave(browser: Client, **form: str) -> str:
    """Where the button of the sign-in page leads to."""
    page = browser.post(START, form).content.decode()
    found = re.search(r'href="(http://localhost[^"]+)"', page)
    assert found, page
    return unescape(found[1])


def sign_in(provider: Provider, subject: str, browser: Client | None = None, **form: str) -> Any:
    browser = browser or Client()
    back = provider.consent(leave(browser, **form), subject)
    return browser.get(back)

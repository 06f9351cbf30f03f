"""Passkeys in a real browser with a virtual authenticator, and how the pages of signing in look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.accounts.factors import code_of
from tests.browser.conftest import watch
from tests.stack import Stack

PASSWORD = "warm-stones-for-grace"
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def base_url(stack: Stack) -> str:
    """Passkeys belong to a name, never to an address."""
    return stack.base_url.replace("127.0.0.1", "localhost")


@pytest.fixture
def invitation(browser: Browser, stack: Stack, signed_in: Any) -> str:
    """The path of a fresh link."""
    context = browser.new_context(base_url=stack.base_url, storage_state=signed_in)
    page = context.new_page()
    page.goto("/accounts/people/")
    page.get_by_role("button", name="Make a link").click()
    link = page.locator("#link").inner_text()
    context.close()
    return link.removeprefix(stack.base_url)


@pytest.fixture
def page(browser: Browser, base_url: str, invitation: str, troubles: list[str]) -> Iterator[Page]:
    """Of a new person, on the page Security, with a device that keeps passkeys."""
    context = browser.new_context(base_url=base_url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    watch(page, base_url, troubles)
    device = context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    page.goto(invitation)
    email = f"grace-{invitation[-9:-1].lower().strip('-_')}@example.org"
    for name, text in (("email", email), ("password1", PASSWORD), ("password2", PASSWORD)):
        page.locator(f"[name={name}]").fill(text)
    page.get_by_role("button", name="Create my account").click()
    page.wait_for_selector("#composer")
    page.goto("/accounts/security/")
    page.email = email  # type: ignore[attr-defined]
    yield page
    context.close()
    assert not troubles


def confirm(page: Page) -> None:
    expect(page.get_by_role("heading", name="Confirm it is you")).to_be_visible()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()


def add_passkey(page: Page, name: str) -> None:
    page.get_by_role("link", name="Add a passkey").click()
    confirm(page)
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()


def sign_out(page: Page) -> None:
    page.goto("/accounts/security/")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def give_password(page: Page) -> None:
    page.get_by_label("E-mail").fill(page.email)  # type: ignore[attr-defined]
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="One more step")).to_be_visible()


def test_a_passkey_is_added_and_opens_the_account(page: Page) -> None:
    add_passkey(page, "blue laptop")
    assert len(page.locator("#recovery-codes").inner_text().split()) == 10
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("blue laptop")).to_be_visible()

    sign_out(page)
    give_password(page)
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_selector("#composer")

    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_selector("#composer")

    page.goto("/accounts/security/")
    page.get_by_role("link", name="Remove blue laptop").click()
    page.get_by_role("link", name="Use a passkey instead").click()
    page.get_by_role("button", name="Use a passkey").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("The passkey is removed.")).to_be_visible()
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("This passkey opens no account here.")).to_be_visible()


def test_the_same_device_is_not_added_twice(page: Page) -> None:
    add_passkey(page, "laptop")
    page.goto("/accounts/security/passkey/")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("alert")).to_have_text("This device or key is already added.")


def test_an_app_is_added_from_the_qr_codes_text(page: Page) -> None:
    page.get_by_role("link", name="Add an app").click()
    confirm(page)
    assert page.get_by_alt_text(re.compile("QR code")).bounding_box()
    secret = page.locator("#totp-secret").inner_text()
    page.get_by_label("The code it shows now").fill(code_of(secret))
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    page.goto("/accounts/security/")
    expect(page.get_by_text("On", exact=True)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_have_no_serious_fault_and_fit_a_phone(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.get_by_role("link", name="Add an app").click()
    look_at(page)
    confirm(page)
    look_at(page)
    page.goto("/accounts/security/passkey/")
    look_at(page)
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    look_at(page)
    page.goto("/accounts/security/")
    look_at(page)
    page.get_by_role("link", name="Remove laptop").click()
    look_at(page)
    sign_out(page)
    look_at(page)
    give_password(page)
    look_at(page)


def look_at(page: Page) -> None:
    """The page as it is now, wide and on a phone."""
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        sizes = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], page.url
    faults = Axe().run(page).response["violations"]
    assert not [one for one in faults if one["impact"] in ("serious", "critical")], page.url

"""Sign in and out: where it leads, what it refuses, and how guessing is slowed down."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts import sign_in_throttle
from accounts.models import AuditRecord, SignInAttempt, User
from accounts.sign_in_throttle import (
    MAX_ON_ACCOUNT,
    TooManyAttempts,
    begin_attempt,
    forget_attempts,
)
from tests.accounts.conftest import PASSWORD
from tests.hosting.failing_database import full_disk

URL = "/accounts/sign-in/"


def sign_in(browser: Client, password: str = PASSWORD, **more: str) -> Any:
    return browser.post(URL, {"username": "Ada@example.org", "password": password, **more})


def test_signing_in_leads_to_the_chat(person: User) -> None:
    browser = Client()
    assert sign_in(browser).url == "/"
    assert browser.session["_auth_user_id"] == str(person.pk)


def test_next_is_followed_on_this_host(person: User) -> None:
    assert sign_in(Client(), next="/accounts/keys/").url == "/accounts/keys/"


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"],
)
def test_next_is_not_followed_elsewhere(person: User, elsewhere: str) -> None:
    assert sign_in(Client(), next=elsewhere).url == "/"


def test_who_is_signed_in_is_not_sent_in_a_circle(page: Client) -> None:
    assert page.get(URL, {"next": URL}).url == "/"


def test_the_session_id_changes_with_the_sign_in(person: User) -> None:
    """A session planted before is worth nothing afterwards."""
    browser = Client()
    session = browser.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    sign_in(browser)
    assert browser.session.session_key != planted
    assert not Client().session.exists(planted)


@pytest.mark.parametrize("email", ["ada@example.org", "nobody@example.org"])
def test_a_wrong_password_and_an_unknown_person_look_alike(person: User, email: str) -> None:
    response = Client().post(URL, {"username": email, "password": "wrong"})
    assert response.context["form"].non_field_errors() == [
        "That e-mail and password do not belong together."
    ]


def test_a_switched_off_person_cannot_sign_in(person: User) -> None:
    User.objects.update(is_active=False)
    browser = Client()
    assert sign_in(browser).status_code == 200
    assert "_auth_user_id" not in browser.session


def test_after_too_many_wrong_passwords_even_the_right_one_waits(person: User) -> None:
    browser = Client()
    for _ in range(MAX_ON_ACCOUNT):
        assert sign_in(browser, "wrong").status_code == 200
    response = sign_in(browser)
    assert response.status_code == 429
    assert "Try again in 15 min" in response.content.decode()


def test_who_goes_on_while_throttled_is_recorded_once_in_a_window(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded() -> list[str]:
        return list(AuditRecord.objects.order_by("number").values_list("action", flat=True))

    for _ in range(MAX_ON_ACCOUNT + 20):
        sign_in(Client(), "wrong")
    expected = [*["sign-in.fail"] * MAX_ON_ACCOUNT, "sign-in.throttle"]
    assert recorded() == expected
    later = timezone.now() + sign_in_throttle.WINDOW
    monkeypatch.setattr(timezone, "now", lambda: later)
    for _ in range(MAX_ON_ACCOUNT + 20):
        sign_in(Client(), "wrong")
    assert recorded() == expected * 2


@pytest.mark.django_db(transaction=True)
def test_on_a_full_disk_one_is_told_to_try_again_later(person: User) -> None:
    with full_disk():
        response = sign_in(Client())
    assert (response.status_code, response.headers["Retry-After"]) == (503, "10")
    assert "its disk may be full" in response.content.decode()
    assert sign_in(Client()).status_code == 302


def test_a_success_forgets_the_failures_before(person: User) -> None:
    sign_in(Client(), "wrong")
    sign_in(Client())
    assert not SignInAttempt.objects.exists()


def test_the_wait_ends_and_the_traces_go(db: None) -> None:
    for _ in range(MAX_ON_ACCOUNT):
        begin_attempt("ada@example.org", "10.0.0.1")
    with pytest.raises(TooManyAttempts):
        begin_attempt("ADA@example.org ", "10.0.0.1")
    old = timezone.now() - sign_in_throttle.WINDOW - datetime.timedelta(seconds=1)
    SignInAttempt.objects.update(attempted_at=old)
    begin_attempt("ada@example.org", "10.0.0.1")
    assert SignInAttempt.objects.count() == 1


def test_a_clock_that_was_set_back_lengthens_no_wait(db: None) -> None:
    for _ in range(MAX_ON_ACCOUNT):
        begin_attempt("ada@example.org", "10.0.0.1")
    SignInAttempt.objects.update(attempted_at=timezone.now() + datetime.timedelta(days=1))
    begin_attempt("ada@example.org", "10.0.0.1")
    assert SignInAttempt.objects.count() == 1


def test_guessing_from_elsewhere_does_not_lock_a_person_out(db: None) -> None:
    for _ in range(MAX_ON_ACCOUNT):
        begin_attempt("ada@example.org", "10.0.0.1")
    begin_attempt("ada@example.org", "10.0.0.2")


def test_a_new_address_of_the_same_connection_is_no_way_around(db: None) -> None:
    for number in range(MAX_ON_ACCOUNT):
        begin_attempt("ada@example.org", f"2001:db8::{number}:1")
    with pytest.raises(TooManyAttempts):
        begin_attempt("ada@example.org", "2001:db8::ffff")
    begin_attempt("ada@example.org", "2001:db8:0:1::1")
    forget_attempts("ada@example.org", "2001:db8::abcd")
    assert SignInAttempt.objects.count() == 1


@pytest.mark.parametrize("address", ["::ffff:10.0.0.{}", "10.0.0.{}"])
def test_with_ipv4_each_address_counts_by_itself(db: None, address: str) -> None:
    for number in range(2 * MAX_ON_ACCOUNT):
        begin_attempt("ada@example.org", address.format(number))


def test_one_address_cannot_go_through_all_people(db: None) -> None:
    for number in range(sign_in_throttle.MAX_FROM_ADDRESS):
        begin_attempt(f"person{number}@example.org", "10.0.0.1")
    with pytest.raises(TooManyAttempts):
        begin_attempt("another@example.org", "10.0.0.1")


def test_what_was_typed_as_email_is_not_kept(db: None) -> None:
    begin_attempt("my-password-by-mistake@example.org", "10.0.0.1")
    assert "my-password" not in repr(SignInAttempt.objects.values())


def test_signing_out_ends_the_session_on_the_server(page: Client) -> None:
    key = page.session.session_key
    assert page.post("/accounts/sign-out/").url == URL
    assert not Client().session.exists(key)


def test_signing_out_needs_a_post(page: Client) -> None:
    assert page.get("/accounts/sign-out/").status_code == 405


def test_a_form_of_another_site_cannot_sign_in_or_out(person: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert sign_in(browser).status_code == 403
    assert browser.post("/accounts/sign-out/").status_code == 403


def test_a_changed_password_ends_the_other_sessions(person: User, page: Client) -> None:
    other = Client()
    other.force_login(person)
    response = page.post(
        "/accounts/password/",
        {
            "old_password": PASSWORD,
            "new_password1": "battery staple 7",
            "new_password2": "battery staple 7",
        },
    )
    assert response.status_code == 302
    assert page.get("/accounts/keys/").status_code == 200
    assert other.get("/accounts/keys/").status_code == 302


@pytest.mark.parametrize("url", ["/accounts/password/", "/accounts/keys/"])
def test_account_pages_are_for_people_who_are_in(db: None, url: str) -> None:
    assert Client().get(url).url == f"{URL}?next={url}"

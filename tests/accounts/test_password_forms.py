"""Where a form says what is wrong with a password: at the password, not at its repetition."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounts.invitations import invite
from accounts.models import SignInAttempt, User
from accounts.sign_in_throttle import MAX_ON_ACCOUNT
from tests.accounts.conftest import PASSWORD

WEAK = "12345"
TOO_SHORT = "This password is too short. It must contain at least 10 characters."
DIFFERENT = "The two password fields didn’t match."  # noqa: RUF001
NEW = {"email": "new@example.org", "name": "New"}


def errors_of(browser: Client, url: str, first: str, again: str, **more: str) -> tuple[Any, Any]:
    """What is told at the password and at its repetition. Where it is one's own, both are new."""
    names = (
        ("new_password1", "new_password2") if "old_password" in more else ("password1", "password2")
    )
    page = browser.post(url, more | dict(zip(names, (first, again), strict=True)))
    context = page.context
    form = context["adminform"].form if "adminform" in context else context["form"]
    return form.errors.get(names[0], []), form.errors.get(names[1], [])


@pytest.fixture(params=["invitation", "own", "new person", "other person"])
def form(request: Any, administrator: User, admin_page: Client, page: Client) -> tuple[Any, ...]:
    """The browser, the address and the other fields."""
    match request.param:
        case "invitation":
            invited = invite(administrator, email="", role="member", group=None, address="")
            return Client(), invited[1], NEW
        case "own":
            return page, "/accounts/password/", {"old_password": PASSWORD}
        case "new person":
            return admin_page, "/admin/accounts/user/add/", NEW
        case _:
            other = f"/admin/accounts/user/{administrator.pk}/password/"
            return admin_page, other, {"usable_password": "true"}


def test_a_weak_password_is_told_at_the_password(form: tuple[Any, ...]) -> None:
    browser, url, more = form
    first, again = errors_of(browser, url, WEAK, WEAK, **more)
    assert TOO_SHORT in first
    assert again == []


def test_a_wrong_repetition_is_told_at_the_repetition(form: tuple[Any, ...]) -> None:
    browser, url, more = form
    assert errors_of(browser, url, "battery 77 staple", "else", **more) == ([], [DIFFERENT])


def test_a_borrowed_session_does_not_find_the_password_out(page: Client, person: User) -> None:
    form = {"new_password1": "battery 77 staple", "new_password2": "battery 77 staple"}
    answers = [
        page.post("/accounts/password/", form | {"old_password": guess})
        for guess in [*["wrong"] * MAX_ON_ACCOUNT, PASSWORD]
    ]
    assert [one.status_code for one in answers] == [*[200] * MAX_ON_ACCOUNT, 429]
    assert "Try again in 15 min" in answers[-1].content.decode()
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_who_knows_their_password_may_change_it_after_a_slip(page: Client, person: User) -> None:
    form = {"new_password1": "battery 77 staple", "new_password2": "battery 77 staple"}
    for old in ("wrong", PASSWORD):
        page.post("/accounts/password/", form | {"old_password": old})
    person.refresh_from_db()
    assert person.check_password("battery 77 staple")
    assert not SignInAttempt.objects.exists()

"""Second factors: the way in with them, what they refuse, and how they come and go."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils.http import urlencode

from accounts.models import AuditRecord, User
from accounts.second_factors import spend_code
from accounts.sign_in_throttle import MAX_ON_SECOND_FACTOR
from tests.accounts import factors
from tests.accounts.conftest import PASSWORD, signed_in

SIGN_IN = "/accounts/sign-in/"
SECOND = "/accounts/second-factor/"
SECURITY = "/accounts/security/"
APP = "/accounts/security/app/"
KEYS = "/accounts/keys/"


def give_password(browser: Client, **more: str) -> Any:
    form = {"username": "ada@example.org", "password": PASSWORD, **more}
    return browser.post(SIGN_IN, form)


def give_code(code: str, **more: str) -> Any:
    browser = Client()
    give_password(browser, **more)
    return browser.post(SECOND, {"code": code})


def audited(action: str) -> AuditRecord:
    return AuditRecord.objects.get(action=action)


@pytest.fixture
def protected(person: User) -> User:
    """Ada, with an authenticator app."""
    factors.add_app(person)
    return person


def test_a_password_alone_opens_nothing(protected: User) -> None:
    browser = Client()
    assert give_password(browser).url == SECOND
    assert "_auth_user_id" not in browser.session
    for url in (KEYS, "/", "/admin/", SECURITY, "/chat/conversations"):
        assert browser.get(url).status_code in (302, 401, 403)
    assert not AuditRecord.objects.filter(action="sign-in").exists()


def test_the_code_opens_the_account_and_leads_on(protected: User) -> None:
    browser = Client()
    give_password(browser, next=KEYS)
    before = browser.session.session_key
    assert browser.post(SECOND, {"code": factors.code_of()}).url == KEYS
    assert browser.get(KEYS).status_code == 200
    assert browser.session.session_key != before
    assert json.loads(audited("sign-in").after) == {"by": ["password", "totp"]}


def test_a_code_is_good_once(protected: User) -> None:
    code = factors.code_of()
    assert give_code(code).status_code == 302
    assert "was used before" in give_code(code).content.decode()
    assert give_code(factors.code_of(steps=1)).status_code == 302
    assert give_code(factors.code_of(steps=-1)).status_code == 200


@pytest.mark.parametrize("code", ["", "12345", "abcdef", "\u0660" * 6, "0" * 500, "0\x00"])
def test_what_is_no_code_is_refused(protected: User, code: str) -> None:
    assert give_code(code).status_code == 200


def test_guessing_codes_is_slowed_down_from_wherever(protected: User) -> None:
    for _ in range(MAX_ON_SECOND_FACTOR):
        assert give_code("000000").status_code == 200
    right = factors.code_of()
    assert give_code(right).status_code == 429
    elsewhere = Client(REMOTE_ADDR="10.9.8.7")
    give_password(elsewhere)
    assert elsewhere.post(SECOND, {"code": right}).status_code == 429
    fails = AuditRecord.objects.filter(action="factor.fail")
    assert fails.count() == MAX_ON_SECOND_FACTOR


def test_a_right_code_forgets_the_wrong_ones(protected: User) -> None:
    for _ in range(2):
        for _ in range(MAX_ON_SECOND_FACTOR - 1):
            give_code("000000")
        protected.authenticator_set.update(data=Authenticator.objects.get().data | {"last_step": 0})
        assert give_code(factors.code_of()).status_code == 302


def test_a_recovery_code_opens_once_and_is_told(protected: User) -> None:
    code = factors.add_codes(protected)[0]
    assert give_code(code).status_code == 302
    assert audited("factor.recovery_code").target == "Ada Park"
    assert give_code(code).status_code == 200
    page = signed_in(protected).get(SECURITY).content.decode()
    assert "9 are left" in page


def test_the_second_factor_is_for_who_gave_a_password(protected: User) -> None:
    assert Client().get(SECOND).url == SIGN_IN
    assert Client().post(SECOND, {"code": factors.code_of()}).url == SIGN_IN


def test_cancelling_forgets_the_password_too(protected: User) -> None:
    browser = Client()
    give_password(browser)
    browser.post("/accounts/sign-out/")
    assert browser.get(SECOND).url == SIGN_IN


def test_who_is_switched_off_between_the_two_stays_out(protected: User) -> None:
    browser = Client()
    give_password(browser)
    User.objects.update(is_active=False)
    assert browser.post(SECOND, {"code": factors.code_of()}).status_code == 403
    assert "_auth_user_id" not in browser.session


def add_app(browser: Client) -> Any:
    """From the password page to the codes that are shown once."""
    asked = browser.get(APP)
    assert asked.url == f"/accounts/confirm/?{urlencode({'next': APP})}"
    assert browser.post(asked.url, {"password": PASSWORD}).url == APP
    secret = browser.get(APP).context["form"].secret
    return browser.post(APP, {"code": factors.code_of(secret)})


def test_an_app_is_added_with_the_password_and_a_first_code(person: User, page: Client) -> None:
    other = signed_in(person)
    assert add_app(page).url == "/accounts/security/codes/"
    shown = page.get("/accounts/security/codes/").content.decode()
    assert len(shown.split('id="recovery-codes"')[1].split("</pre>")[0].split()) >= 10
    again = page.get("/accounts/security/codes/").content.decode()
    assert "recovery-codes" not in again and "shown once" in again
    assert page.get(KEYS).status_code == 200
    assert other.get(KEYS).status_code == 302
    assert json.loads(audited("factor.add").after) == {"factor": "totp"}


def test_a_wrong_code_adds_nothing_and_keeps_the_secret(person: User, page: Client) -> None:
    factors.just_confirmed(page, person)
    secret = page.get(APP).context["form"].secret
    response = page.post(APP, {"code": "000000"})
    assert response.context["form"].secret == secret
    assert not Authenticator.objects.exists()


def test_guessing_the_password_once_more_is_slowed_down(page: Client) -> None:
    url = f"/accounts/confirm/?next={APP}"
    statuses = [page.post(url, {"password": "wrong"}).status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]


def test_who_has_a_second_factor_shows_it_before_removing_it(protected: User) -> None:
    """A borrowed session with the password must not take it away."""
    page = signed_in(protected)
    remove = f"{APP}remove/"
    asked = page.get(remove)
    assert asked.url == f"/accounts/confirm/code/?{urlencode({'next': remove})}"
    assert page.get("/accounts/confirm/").url == "/accounts/confirm/code/"
    assert page.post("/accounts/confirm/", {"password": PASSWORD}).url == "/accounts/confirm/code/"
    assert page.post(asked.url, {"code": "000000"}).status_code == 200
    assert page.post(asked.url, {"code": factors.code_of()}).url == remove
    assert page.post(remove).url == SECURITY
    assert not Authenticator.objects.exists()
    assert json.loads(audited("factor.remove").after) == {"factor": "totp"}


def test_new_recovery_codes_void_the_old(protected: User) -> None:
    old = factors.add_codes(protected)[0]
    page = signed_in(protected)
    factors.just_confirmed(page, protected)
    page.post("/accounts/security/codes/new/")
    assert give_code(old).status_code == 200
    assert audited("factor.renew")


def test_pages_with_secrets_are_kept_nowhere(person: User, page: Client) -> None:
    factors.just_confirmed(page, person)
    assert "no-store" in page.get(APP)["Cache-Control"]


def test_the_database_alone_opens_nothing(protected: User) -> None:
    codes = factors.add_codes(protected)
    kept = json.dumps([one.data for one in Authenticator.objects.all()])
    assert factors.SECRET not in kept
    assert not [code for code in codes if code in kept]


def test_a_lost_secret_key_lets_nobody_in(protected: User, settings: Any) -> None:
    settings.SECRET_KEY = "another"
    assert give_code(factors.code_of()).status_code == 200


def test_another_persons_passkey_cannot_be_removed(person: User, stranger: User) -> None:
    theirs = factors.add_passkey(person, "key")
    page = signed_in(stranger)
    factors.just_confirmed(page, stranger)
    assert page.post(f"/accounts/security/passkey/{theirs.pk}/remove/").status_code == 404


@pytest.mark.parametrize("credential", ["", "{", "{}", "[]", '"x"', '{"response": {}}', "null"])
def test_what_is_no_passkey_opens_nothing(protected: User, credential: str) -> None:
    browser = Client()
    give_password(browser)
    assert browser.get(SECOND).status_code == 200
    assert browser.post(SECOND, {"credential": credential}).status_code == 200
    alone = Client()
    alone.get("/accounts/sign-in/passkey/", headers={"accept": "application/json"})
    answer = alone.post("/accounts/sign-in/passkey/", {"credential": credential})
    assert answer.url == SIGN_IN
    assert "opens no account" in alone.get(SIGN_IN).content.decode()


# -- administrators --------------------------------------------------------------------------------


def test_administrators_must_have_one_where_that_is_set(
    administrator: User, person: User, settings: Any
) -> None:
    settings.REQUIRE_MFA = "administrators"
    page, member = signed_in(administrator), signed_in(person)
    for url in ("/admin/", "/", KEYS, "/accounts/people/", "/chat/conversations"):
        assert page.get(url).url == SECURITY
    assert "Administrators here need a second factor" in page.get(SECURITY).content.decode()
    assert member.get(KEYS).status_code == 200
    factors.add_app(administrator)
    assert page.get("/admin/").status_code == 200


def test_an_administrator_resets_the_factors_of_a_person(
    admin_page: Client, protected: User
) -> None:
    page = signed_in(protected)
    people = "/admin/accounts/user/"
    form = {"action": "reset_factors", "_selected_action": protected.pk}
    assert "signed out everywhere" in admin_page.post(people, form).content.decode()
    assert Authenticator.objects.exists()
    admin_page.post(people, form | {"confirmed": "yes"})
    assert not Authenticator.objects.exists()
    assert page.get(KEYS).status_code == 302
    record = audited("factor.reset")
    assert (record.actor, record.target) == ("root@example.org", "Ada Park")
    assert json.loads(record.before) == {"factors": ["totp"]}


def test_the_terminal_resets_the_factors_of_a_person(protected: User) -> None:
    call_command("reset_second_factors", "Ada@example.org")
    assert not Authenticator.objects.exists()
    assert audited("factor.reset").actor == "system"
    with pytest.raises(CommandError):
        call_command("reset_second_factors", "nobody@example.org")


def test_the_administration_has_none_of_the_librarys_pages(admin_page: Client) -> None:
    """They would show what is sealed, and change it past the record."""
    for app in ("mfa/authenticator", "account/emailaddress", "socialaccount/socialapp"):
        assert admin_page.get(f"/admin/{app}/").status_code == 404


def test_two_at_once_with_one_code_are_one(transactional_db: None) -> None:
    person = User.objects.create_user("ada@example.org", PASSWORD)
    factors.add_app(person)
    code, app = factors.code_of(), Authenticator.objects.get()

    def spend(_: int) -> bool:
        try:
            return spend_code(app, code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(spend, range(4))) == [False, False, False, True]

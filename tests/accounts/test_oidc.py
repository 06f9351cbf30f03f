"""Signing in with a real OpenID Connect provider: who comes in, as whom, in which groups."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from accounts.invitations import create_service_account, invite
from accounts.models import AuditRecord, Invitation, User
from accounts.sign_in_throttle import MAX_ON_ACCOUNT
from hosting.sign_in_settings import oidc_providers
from tests.accounts import factors
from tests.accounts.conftest import signed_in
from tests.accounts.oidc_flow import (
    CALLBACK,
    GRACE,
    START,
    leave,
    process,
    provider,
    sign_in,
    use,
)
from tests.accounts.oidc_provider import Provider, running_provider

__all__ = ["process", "provider"]

KEYS = "/accounts/keys/"
ADA = {"email": "ada@example.org", "email_verified": True}


def is_in(browser: Client) -> bool:
    return browser.get(KEYS).status_code == 200


def test_a_new_person_comes_in_and_comes_again(provider: Provider) -> None:
    provider.knows("grace", **GRACE)
    browser = Client()
    assert sign_in(provider, "grace", browser, next=KEYS).url == KEYS
    assert is_in(browser)
    grace = User.objects.get()
    assert (grace.email, grace.name) == ("grace@example.org", "Grace Hopper")
    assert not grace.has_usable_password() and not grace.is_staff
    provider.knows("grace", **GRACE | {"email": "new-name@example.org"})
    assert sign_in(provider, "grace").status_code == 302
    assert User.objects.get() == grace
    actions = list(AuditRecord.objects.order_by("number").values_list("action", flat=True))
    assert actions == ["person.add", "identity.add", "sign-in", "sign-in"]


def test_the_way_out_carries_pkce_state_and_nonce(provider: Provider) -> None:
    asked = parse_qs(urlsplit(leave(Client())).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert {"code_challenge", "state", "nonce"} <= asked.keys()
    assert "openid" in asked["scope"][0].split()


def test_the_way_out_needs_a_form_of_ours(provider: Provider) -> None:
    assert Client().get(START).status_code == 405
    assert Client(enforce_csrf_checks=True).post(START).status_code == 403


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example"])
def test_next_is_not_followed_elsewhere(provider: Provider, elsewhere: str) -> None:
    provider.knows("grace", **GRACE)
    assert sign_in(provider, "grace", next=elsewhere).url == "/"


@pytest.mark.parametrize(
    "fault",
    [
        {"iss": "https://evil.example"},
        {"aud": "another-client"},
        {"nonce": "of another browser"},
        {"nonce": None},
        {"exp": 1},
        {"sub": "somebody-else"},
        {"another key": True},
        {"no token": True},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_this_sign_in_opens_nothing(
    provider: Provider, fault: dict[str, Any]
) -> None:
    provider.knows("grace", **GRACE)
    browser = Client()
    provider.misbehaves(**fault)
    assert sign_in(provider, "grace", browser).status_code == 403
    assert not is_in(browser)
    assert not User.objects.exists()
    assert AuditRecord.objects.get().action == "sign-in.fail"


def test_an_answer_that_this_browser_did_not_ask_for_opens_nothing(provider: Provider) -> None:
    """Somebody sends their own link back: the victim would work in the sender's account."""
    provider.knows("grace", **GRACE)
    back = provider.consent(leave(Client()), "grace")
    victim = Client()
    assert victim.get(back).status_code == 403
    leave(victim)
    assert victim.get(back).status_code == 403
    assert not is_in(victim)


def test_an_answer_opens_once(provider: Provider) -> None:
    provider.knows("grace", **GRACE)
    browser = Client()
    back = provider.consent(leave(browser), "grace")
    assert browser.get(back).status_code == 302
    browser.post("/accounts/sign-out/")
    assert browser.get(back).status_code == 403


@pytest.mark.parametrize(
    "query", [{}, {"code": "x"}, {"state": "x", "code": "x"}, {"error": "access_denied"}]
)
def test_what_is_no_answer_opens_nothing(provider: Provider, query: dict[str, str]) -> None:
    assert Client().get(f"{CALLBACK}?{urlencode(query)}").status_code == 403


def test_a_code_without_its_verifier_is_worth_nothing(provider: Provider) -> None:
    """Stolen on the way back: the provider wants what only the server that asked has."""
    provider.knows("grace", **GRACE)
    thief, browser = Client(), Client()
    stolen = parse_qs(urlsplit(provider.consent(leave(browser), "grace")).query)["code"][0]
    state = parse_qs(urlsplit(leave(thief)).query)["state"][0]
    answer = thief.get(f"{CALLBACK}?{urlencode({'code': stolen, 'state': state})}")
    assert answer.status_code == 403


def test_a_provider_that_is_away_is_told(settings: Any, db: None) -> None:
    settings.SOCIALACCOUNT_PROVIDERS = oidc_providers("http://localhost:9", "id", "secret", [])
    response = Client().post(START)
    assert response.status_code == 403
    assert "did not succeed" in response.content.decode()


def test_who_goes_on_with_answers_of_no_provider_fills_no_record(provider: Provider) -> None:
    for number in range(MAX_ON_ACCOUNT + 20):
        answer = Client(REMOTE_ADDR=f"2001:db8::{number:x}").get(CALLBACK, {"state": "x"})
        assert answer.status_code == 403
    actions = list(AuditRecord.objects.values_list("action", flat=True))
    assert actions == ["sign-in.fail"] * MAX_ON_ACCOUNT
    Client(REMOTE_ADDR="2001:db8:0:1::1").get(CALLBACK, {"error": "access_denied"})
    assert AuditRecord.objects.count() == MAX_ON_ACCOUNT + 1


def test_who_was_refused_before_comes_in(provider: Provider) -> None:
    for _ in range(MAX_ON_ACCOUNT + 1):
        Client().get(CALLBACK, {"state": "x"})
    provider.knows("grace", **GRACE)
    browser = Client()
    sign_in(provider, "grace", browser)
    assert is_in(browser)


def test_without_a_provider_there_is_no_such_door(db: None) -> None:
    assert Client().post(START).status_code == 404
    assert Client().get(CALLBACK).status_code == 404
    assert "SSO" not in Client().get("/accounts/sign-in/").content.decode()
    with pytest.raises(ImproperlyConfigured):
        oidc_providers("https://id.example.org", "", "", [])


# -- who somebody is here --------------------------------------------------------------------------


def test_unknown_people_are_made_only_where_that_is_set(provider: Provider, settings: Any) -> None:
    settings.OIDC_MAY_CREATE = False
    provider.knows("grace", **GRACE)
    page = sign_in(provider, "grace")
    assert page.status_code == 403
    assert "Ask your administrator to invite you" in page.content.decode()
    assert not User.objects.exists()


def test_an_open_invitation_to_the_verified_email_lets_in(
    provider: Provider, administrator: User, settings: Any
) -> None:
    settings.OIDC_MAY_CREATE = False
    group = Group.objects.create(name="research")
    invite(administrator, role="manager", group=group, email="Grace@example.org")
    provider.knows("grace", **GRACE | {"email_verified": False})
    assert sign_in(provider, "grace").status_code == 403
    provider.knows("grace", **GRACE)
    assert sign_in(provider, "grace").status_code == 302
    grace = User.objects.get(email="grace@example.org")
    assert list(grace.groups.all()) == list(grace.manages.all()) == [group]
    assert Invitation.objects.get().used_at
    assert AuditRecord.objects.filter(action="invitation.accept").count() == 1


def test_the_same_subject_of_another_issuer_is_somebody_else(
    provider: Provider, settings: Any
) -> None:
    provider.knows("1000", **GRACE)
    sign_in(provider, "1000")
    with running_provider() as another:
        use(another, settings)
        another.knows("1000", email="mallory@example.org", email_verified=True)
        browser = Client()
        sign_in(another, "1000", browser)
    mallory = User.objects.get(email="mallory@example.org")
    assert browser.session["_auth_user_id"] == str(mallory.pk)


@pytest.mark.parametrize(
    "claims",
    [{"email": "no address"}, {"email": 7}, {"email": f"{'x' * 300}@example.org"}, {"email": None}],
    ids=["words", "number", "long", "none"],
)
def test_what_is_no_email_makes_nobody(provider: Provider, claims: dict[str, Any]) -> None:
    provider.knows("x", email_verified=True, **claims)
    assert sign_in(provider, "x").status_code == 403
    assert not User.objects.exists()


def test_a_subject_that_is_too_long_is_refused(provider: Provider) -> None:
    for length in (180, 250):
        provider.knows("x" * length, **GRACE)
        assert sign_in(provider, "x" * length).status_code == 403


@pytest.mark.parametrize("claims", [{}, {"email_verified": False}, {"email_verified": "true"}])
def test_an_email_that_is_not_verified_is_nobodys(
    provider: Provider, person: User, settings: Any, claims: dict[str, Any]
) -> None:
    settings.OIDC_MAY_LINK_EMAIL = True
    provider.knows("x", email="ada@example.org", **claims)
    assert sign_in(provider, "x").status_code == 403
    assert not SocialAccount.objects.exists()


def test_a_provider_without_the_claim_can_be_trusted_by_setting(
    provider: Provider, settings: Any
) -> None:
    settings.OIDC_TRUSTS_EMAIL = True
    provider.knows("grace", email="grace@example.org")
    assert sign_in(provider, "grace").status_code == 302


def test_a_person_is_joined_by_email_only_where_that_is_set(
    provider: Provider, person: User, settings: Any
) -> None:
    provider.knows("ada-at-work", **ADA)
    refused = sign_in(provider, "ada-at-work")
    assert refused.status_code == 403
    assert "connect SSO there" in refused.content.decode()
    settings.OIDC_MAY_LINK_EMAIL = True
    browser = Client()
    assert sign_in(provider, "ada-at-work", browser).status_code == 302
    assert browser.session["_auth_user_id"] == str(person.pk)
    person.refresh_from_db()
    assert person.has_usable_password()


def test_who_is_switched_off_stays_out(provider: Provider, settings: Any) -> None:
    provider.knows("grace", **GRACE, groups=["ops"])
    sign_in(provider, "grace")
    User.objects.update(is_active=False)
    settings.OIDC_GROUPS = {"ops": "Operations"}
    browser = Client()
    assert sign_in(provider, "grace", browser).status_code == 403
    assert not is_in(browser)
    assert not Group.objects.exists()


def test_nobody_signs_in_as_a_service(
    provider: Provider, administrator: User, settings: Any
) -> None:
    settings.OIDC_MAY_LINK_EMAIL = True
    service = create_service_account("cron", by=administrator)
    provider.knows("x", email=service.email, email_verified=True)
    assert sign_in(provider, "x").status_code == 403


def test_the_second_factor_is_asked_for_after_the_provider_too(
    provider: Provider, person: User, settings: Any
) -> None:
    settings.OIDC_MAY_LINK_EMAIL = True
    factors.add_app(person)
    provider.knows("ada", **ADA)
    browser = Client()
    assert sign_in(provider, "ada", browser).url == "/accounts/second-factor/"
    assert not is_in(browser)
    assert browser.post("/accounts/second-factor/", {"code": factors.code_of()}).url == "/"
    assert is_in(browser)


# -- from the page Security ------------------------------------------------------------------------


def test_a_person_connects_and_disconnects_an_identity(provider: Provider, person: User) -> None:
    page = signed_in(person)
    assert page.post(START).url.startswith("/accounts/confirm/")
    factors.just_confirmed(page, person)
    provider.knows("any", email="other@elsewhere.org")
    assert sign_in(provider, "any", page).url == "/accounts/security/"
    assert "Disconnect" in page.get("/accounts/security/").content.decode()
    browser = Client()
    assert sign_in(provider, "any", browser).status_code == 302
    assert browser.session["_auth_user_id"] == str(person.pk)
    page.post("/accounts/oidc/disconnect/")
    assert not SocialAccount.objects.exists()
    actions = set(AuditRecord.objects.values_list("action", flat=True))
    assert {"identity.add", "identity.remove"} <= actions


def test_an_identity_opens_one_account(provider: Provider, person: User, stranger: User) -> None:
    provider.knows("any", **GRACE)
    for user in (person, stranger):
        page = signed_in(user)
        factors.just_confirmed(page, user)
        sign_in(provider, "any", page)
    assert SocialAccount.objects.get().user == person
    assert "opens another account" in page.get("/accounts/security/").content.decode()


def test_the_only_way_in_stays(provider: Provider) -> None:
    provider.knows("grace", **GRACE)
    browser = Client()
    sign_in(provider, "grace", browser)
    browser.post("/accounts/oidc/disconnect/")
    assert SocialAccount.objects.exists()

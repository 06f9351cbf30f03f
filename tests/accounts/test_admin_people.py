"""People, keys and usage in the administration: who may open it, and who may change whom."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from accounts import audit
from accounts.keys import check_api_key, create_api_key
from accounts.models import ApiKey, AuditRecord, Policy, Quota, User
from tests.accounts.conftest import signed_in

PEOPLE = "/admin/accounts/user/"
KEYS = "/admin/accounts/apikey/"
NO_QUOTA = {"quota-TOTAL_FORMS": 0, "quota-INITIAL_FORMS": 0}


@pytest.fixture
def manager(db: None) -> User:
    """May change people, but is no administrator."""
    user = User.objects.create_user("manager@example.org", name="Manager", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="accounts"))
    return user


def test_the_menu_of_staff_leads_to_no_closed_door(manager: User) -> None:
    page = signed_in(manager)
    links = set(re.findall(r'href="(/admin/[a-z]+/[a-z]+/)"', page.get("/admin/").content.decode()))
    assert PEOPLE in links
    assert {page.get(link, follow=True).status_code for link in links} == {200}


def test_staff_who_may_do_nothing_are_told_so_and_whom_to_ask(manager: User) -> None:
    said = "Nothing here is open to you yet"
    assert said not in signed_in(manager).get("/admin/").content.decode()
    manager.user_permissions.set(Permission.objects.filter(codename="add_usagerecord"))
    html = signed_in(manager).get("/admin/").content.decode()
    assert said in html and "Ask an administrator" in html


def test_who_may_not_set_a_password_is_not_sent_to_its_page(
    manager: User, administrator: User, person: User
) -> None:
    page = signed_in(manager)
    assert b"../password/" in page.get(f"{PEOPLE}{person.pk}/change/").content
    assert b"../password/" not in page.get(f"{PEOPLE}{administrator.pk}/change/").content


def test_who_sets_the_limits_of_everybody_is_not_asked_for_others(admin_page: Client) -> None:
    assert b"_addanother" in admin_page.get(f"{PEOPLE}add/").content
    assert b"_addanother" not in admin_page.get("/admin/accounts/quota/add/").content


def test_the_administration_sends_strangers_to_the_sign_in_page(db: None) -> None:
    response = Client().get("/admin/", follow=True)
    assert response.redirect_chain[-1][0] == "/accounts/sign-in/?next=/admin/"


def test_members_are_told_no_and_not_sent_in_a_circle(page: Client) -> None:
    assert page.get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize(
    "url",
    [
        "/admin/",
        PEOPLE,
        f"{PEOPLE}add/",
        KEYS,
        "/admin/auth/group/",
        "/admin/auth/group/add/",
        "/admin/accounts/usagerecord/",
        "/admin/accounts/hourlyusage/",
    ],
)
def test_every_page_opens_for_an_administrator(admin_page: Client, person: User, url: str) -> None:
    assert admin_page.get(url).status_code == 200


def test_a_person_is_added_with_a_password_and_may_sign_in(admin_page: Client) -> None:
    form = {"email": "New@example.org", "name": "New", "usable_password": "true"}
    admin_page.post(
        f"{PEOPLE}add/", form | {"password1": "correct horse 9", "password2": "correct horse 9"}
    )
    assert User.objects.get(email="new@example.org").check_password("correct horse 9")


def test_a_manager_cannot_give_powers(manager: User, person: User) -> None:
    group = Group.objects.create(name="all")
    form = {"email": person.email, "name": "Renamed", "is_active": "on", "is_superuser": "on"}
    signed_in(manager).post(
        f"{PEOPLE}{person.pk}/change/", form | NO_QUOTA | {"is_staff": "on", "groups": [group.pk]}
    )
    person.refresh_from_db()
    assert person.name == "Renamed"
    assert not person.is_superuser and not person.is_staff and not person.groups.exists()


@pytest.mark.parametrize("lost", ["is_superuser", "is_staff", "is_active", "is_service"])
def test_the_last_administrator_stays_one(
    admin_page: Client, administrator: User, person: User, lost: str
) -> None:
    powers = {"is_active": "on", "is_staff": "on", "is_superuser": "on"}
    form = {"email": administrator.email, "name": "Root", **powers, **NO_QUOTA}
    less = {**form, "is_service": "on"} if lost == "is_service" else form.copy()
    if lost in powers:
        del less[lost]
    address = f"{PEOPLE}{administrator.pk}/change/"
    response = admin_page.post(address, less)
    assert lost in response.context["adminform"].errors
    assert admin_page.post(address, form).status_code == 302
    User.objects.create_superuser("program@example.org", is_service=True)  # it cannot sign in
    assert lost in admin_page.post(address, less).context["adminform"].errors
    User.objects.create_superuser("second@example.org")
    assert admin_page.post(address, less).status_code == 302


@pytest.mark.parametrize("number", ["x", "999", "9" * 30])
@pytest.mark.parametrize("page", ["limits", "conversations", "reset-factors"])
def test_pages_of_nobody_are_not_there(admin_page: Client, number: str, page: str) -> None:
    Policy.objects.update_or_create(pk=1, defaults={"may_read_conversations": True})
    assert admin_page.get(f"{PEOPLE}{number}/{page}/", follow=True).status_code == 404


@pytest.mark.parametrize("number", ["x", "999"])
def test_a_key_that_is_not_there_cannot_be_revoked(admin_page: Client, number: str) -> None:
    assert admin_page.get(f"{KEYS}{number}/revoke/").status_code == 404


def the_models() -> list[str]:
    return ["one", "two"]


def test_limits_are_set_beside_their_person_and_audited(
    admin_page: Client, person: User, settings: Any
) -> None:
    settings.ACCOUNTS_MODEL_NAMES = f"{__name__}.the_models"
    form = {"email": person.email, "name": person.name, "is_active": "on"}
    quota = {
        "quota-TOTAL_FORMS": 1,
        "quota-INITIAL_FORMS": 0,
        "quota-0-tokens_per_day": 1000,
        "quota-0-allowed_models": "one, two",
        "quota-0-time_zone": "Europe/Prague",
    }
    response = admin_page.post(f"{PEOPLE}{person.pk}/change/", form | quota)
    assert response.status_code == 302
    found = Quota.objects.get(user=person)
    assert (found.tokens_per_day, found.allowed_models) == (1000, ["one", "two"])
    assert '"tokens_per_day": 1000' in AuditRecord.objects.get(action="quota.change").after


@pytest.mark.parametrize(("kept", "is_saved"), [([], False), (["gone"], True)])
def test_limits_name_models_that_there_are_or_that_they_named_before(
    admin_page: Client, settings: Any, kept: list[str], is_saved: bool
) -> None:
    settings.ACCOUNTS_MODEL_NAMES = f"{__name__}.the_models"
    quota = Quota.objects.create(allowed_models=kept)
    address = f"/admin/accounts/quota/{quota.pk}/change/"
    form = admin_page.get(address).context["adminform"].form
    fields = {name: form[name].value() or "" for name in form.fields}
    response = admin_page.post(address, fields | {"allowed_models": "two, gone"})
    quota.refresh_from_db()
    if is_saved:
        assert (response.status_code, quota.allowed_models) == (302, ["two", "gone"])
        assert "two, gone" in admin_page.get("/admin/accounts/quota/").content.decode()
    else:
        (error,) = response.context["adminform"].form.errors["allowed_models"]
        assert error == "There is no model gone. Models: one, two."
        assert not quota.allowed_models


def test_who_is_switched_off_has_nothing_left_running(
    admin_page: Client, person: User, settings: Any
) -> None:
    settings.ACCOUNTS_ACCESS_ENDED = f"{__name__}.note_end"
    form = {"email": person.email, "name": person.name}
    admin_page.post(f"{PEOPLE}{person.pk}/change/", form | NO_QUOTA)
    assert ended_of == [{"user_id": person.pk}]
    assert '"is_active": false' in AuditRecord.objects.get(action="person.change").after


def test_who_is_switched_on_again_signs_in_again(
    admin_page: Client, person: User, page: Client
) -> None:
    """A session from before may be another's, and the reason for switching the account off."""
    form = {"email": person.email, "name": person.name} | NO_QUOTA
    secret = create_api_key(user=person, name="laptop")[1]
    assert page.get("/accounts/keys/").status_code == 200
    for switch in ({}, {"is_active": "on"}):
        admin_page.post(f"{PEOPLE}{person.pk}/change/", form | switch)
    assert page.get("/accounts/keys/").url == "/accounts/sign-in/?next=/accounts/keys/"
    person.refresh_from_db()
    assert signed_in(person).get("/accounts/keys/").status_code == 200
    assert check_api_key(secret).user == person


def test_who_becomes_a_service_account_is_signed_out_for_good(
    admin_page: Client, person: User, page: Client
) -> None:
    form = {"email": person.email, "name": person.name, "is_active": "on"} | NO_QUOTA
    secret = create_api_key(user=person, name="laptop")[1]
    for switch in ({"is_service": "on"}, {}):
        admin_page.post(f"{PEOPLE}{person.pk}/change/", form | switch)
        assert page.get("/accounts/keys/").url == "/accounts/sign-in/?next=/accounts/keys/"
    assert check_api_key(secret).user == person


ended_of: list[dict[str, int]] = []


def note_end(**whose: int) -> None:
    ended_of.append(whose)


@pytest.mark.parametrize("path", ["password/", "delete/", "change/"])
def test_a_manager_cannot_touch_an_administrator(
    manager: User, administrator: User, path: str
) -> None:
    response = signed_in(manager).post(f"{PEOPLE}{administrator.pk}/{path}", {"post": "yes"})
    assert response.status_code == 403


def test_an_administrator_deletes_a_person_with_their_keys(
    admin_page: Client, person: User
) -> None:
    create_api_key(user=person, name="laptop")
    admin_page.post(f"{PEOPLE}{person.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk=person.pk).exists()


def test_revoking_keys_asks_first_and_is_logged(admin_page: Client, person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    form = {"action": "revoke", "_selected_action": key.pk}
    assert "cannot be undone" in admin_page.post(KEYS, form).content.decode()
    key.refresh_from_db()
    assert not key.is_revoked
    admin_page.post(KEYS, form | {"confirmed": "yes"})
    key.refresh_from_db()
    assert key.is_revoked
    record = AuditRecord.objects.get(action="key.revoke")
    assert (record.actor, record.address) == ("root@example.org", "127.0.0.1")


def test_more_than_a_thousand_keys_are_revoked_at_once(admin_page: Client, person: User) -> None:
    prefixes = [f"sk-{number}" for number in range(1100)]
    ApiKey.objects.bulk_create(
        ApiKey(user=person, name="old", prefix=prefix, key_hash=prefix) for prefix in prefixes
    )
    one = ApiKey.objects.values_list("pk", flat=True)[:1]
    form = {"action": "revoke", "_selected_action": list(one), "select_across": "1"}
    question = admin_page.post(KEYS, form).context
    form = {"confirmed": "yes", "action": "revoke"}
    form["_selected_action"] = [value for name, value in question["fields"] if name != "action"]
    assert admin_page.post(question["post_url"], form).status_code == 302
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_more_rows_than_can_be_answered_for_are_not_asked_about(
    admin_page: Client, person: User, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 20
    for number in range(20):
        create_api_key(user=person, name=f"key {number}")
    form = {"action": "revoke", "_selected_action": person.api_keys.first().pk}
    response = admin_page.post(KEYS, form | {"select_across": "1"}, follow=True)
    assert "Choose fewer" in response.content.decode()


def test_a_link_alone_revokes_nothing(admin_page: Client, person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    admin_page.get(f"{KEYS}{key.pk}/revoke", {"confirmed": "yes"}, follow=True)
    key.refresh_from_db()
    assert not key.is_revoked


def test_the_administration_shows_no_hash_and_makes_no_keys(
    admin_page: Client, person: User
) -> None:
    key, secret = create_api_key(user=person, name="laptop")
    text = admin_page.get(f"{KEYS}{key.pk}/change/").content.decode()
    assert key.prefix in text
    assert key.key_hash not in text and secret not in text
    assert admin_page.get(f"{KEYS}add/").status_code == 403


def test_only_administrators_say_what_a_group_may(manager: User) -> None:
    """Whoever may change groups could else give their own group everything."""
    group = Group.objects.create(name="Research")
    manager.user_permissions.add(Permission.objects.get(codename="change_group"))
    everything = Permission.objects.values_list("pk", flat=True)
    form = {"name": "Science", "permissions": list(everything)} | NO_QUOTA
    signed_in(manager).post(f"/admin/auth/group/{group.pk}/change/", form)
    group.refresh_from_db()
    assert group.name == "Science"
    assert not group.permissions.exists()


def test_a_password_is_a_link_and_no_hash(admin_page: Client, person: User) -> None:
    html = admin_page.get(f"{PEOPLE}{person.pk}/change/").content.decode()
    assert 'href="../password/"' in html
    assert "argon2" not in html


def test_an_audit_record_opens_with_what_it_says(admin_page: Client, person: User) -> None:
    audit.record("key.revoke", actor=person, address="192.0.2.7", target="laptop")
    record = AuditRecord.objects.get(action="key.revoke")
    html = admin_page.get(f"/admin/accounts/auditrecord/{record.pk}/change/").content.decode()
    for told in (person.email, "192.0.2.7", "key.revoke", "laptop"):
        assert told in html


@pytest.mark.parametrize("path", ["auditrecord/?q=nothing", "apikey/", "usagerecord/"])
def test_a_list_without_lines_makes_up_no_number(admin_page: Client, path: str) -> None:
    html = admin_page.get(f"/admin/accounts/{path}").content.decode()
    assert "5000 results" not in html
    assert "yielded" not in html


@pytest.mark.parametrize("path", ["password/", "delete/", "change/"])
def test_a_manager_cannot_become_another_one_who_may_more(manager: User, path: str) -> None:
    other = User.objects.create_user("other@example.org", is_staff=True)
    response = signed_in(manager).post(f"{PEOPLE}{other.pk}/{path}", {"post": "yes"})
    assert response.status_code == 403
    assert signed_in(manager).get(f"{PEOPLE}{manager.pk}/change/").status_code == 200


@pytest.mark.parametrize("path", ["password/", "delete/", "change/"])
def test_staff_become_nobody_who_manages_a_group(manager: User, person: User, path: str) -> None:
    """They would see the group's usage and invite people into it."""
    person.manages.add(Group.objects.create(name="research"))
    before = person.password
    form = {"password1": "battery 77 staple", "password2": "battery 77 staple", "post": "yes"}
    assert signed_in(manager).post(f"{PEOPLE}{person.pk}/{path}", form).status_code == 403
    person.refresh_from_db()
    assert person.password == before


def test_a_manager_deletes_no_administrator_among_others(
    manager: User, administrator: User, person: User
) -> None:
    chosen = {"_selected_action": [person.pk, administrator.pk]}
    form = {"action": "delete_selected", "post": "yes"} | chosen
    assert signed_in(manager).post(PEOPLE, form).status_code == 403
    assert User.objects.filter(pk__in=[person.pk, administrator.pk]).count() == 2
    response = signed_in(manager).post(PEOPLE, form | {"_selected_action": [person.pk]})
    assert response.status_code == 302
    assert not User.objects.filter(pk=person.pk).exists()


@pytest.mark.parametrize("how", ["one", "several"])
def test_a_key_that_is_deleted_has_nothing_left_running(
    admin_page: Client, person: User, settings: Any, how: str
) -> None:
    settings.ACCOUNTS_ACCESS_ENDED = f"{__name__}.note_end"
    ended_of.clear()
    key, _ = create_api_key(user=person, name="laptop")
    if how == "one":
        admin_page.post(f"{KEYS}{key.pk}/delete/", {"post": "yes"})
    else:
        form = {"action": "delete_selected", "post": "yes", "_selected_action": key.pk}
        admin_page.post(KEYS, form)
    assert not person.api_keys.exists()
    assert ended_of == [{"api_key_id": key.pk}]
    told = set(AuditRecord.objects.values_list("action", flat=True))
    assert {"key.revoke", "key.delete"} <= told


def test_without_groups_there_is_a_word_and_no_empty_control(
    admin_page: Client, person: User
) -> None:
    html = html_of_person(admin_page, person)
    assert html.count('There are no groups yet. <a href="/admin/auth/group/add/">') == 2
    Group.objects.create(name="research")
    assert "There are no groups yet" not in html_of_person(admin_page, person)


def test_no_field_has_a_menu_that_only_a_mouse_opens(admin_page: Client, person: User) -> None:
    Group.objects.create(name="research")
    assert "more_vert" not in html_of_person(admin_page, person)


def html_of_person(browser: Client, person: User) -> str:
    return browser.get(f"{PEOPLE}{person.pk}/change/").content.decode()

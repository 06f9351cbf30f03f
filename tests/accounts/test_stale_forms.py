"""Two tabs of the administration: the one that was opened earlier undoes nothing of the other."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
from django.http import HttpResponse
from django.test import Client

from accounts.keys import create_api_key
from accounts.models import AuditRecord, Policy, Quota, User
from tests.accounts.conftest import signed_in
from tests.accounts.form_in_page import Tab

CHANGED = "have changed since this page was opened"


def is_refused(response: HttpResponse) -> bool:
    return response.status_code == 200 and CHANGED in response.content.decode()


def page_of(owner: User | Group | None) -> str:
    match owner:
        case User():
            return f"/admin/accounts/user/{owner.pk}/change/"
        case Group():
            return f"/admin/auth/group/{owner.pk}/change/"
    return f"/admin/accounts/quota/{Quota.objects.get().pk}/change/"


@pytest.fixture(params=["person", "group", "key", "everybody"])
def limits_page(request: pytest.FixtureRequest, person: User) -> tuple[str, str]:
    """Of a page with limits: its address, and what its fields of them begin with."""
    limits = {"tokens_per_day": 1000, "allowed_models": ["b", "a"], "weight": 1.5}
    match request.param:
        case "person":
            Quota.objects.create(user=person, **limits)
            return page_of(person), "quota-0-"
        case "group":
            group = Group.objects.create(name="research")
            Quota.objects.create(group=group, **limits)
            return page_of(group), "quota-0-"
        case "key":
            key, _ = create_api_key(user=person, name="laptop")
            Quota.objects.create(api_key=key, **limits)
            return f"/admin/accounts/apikey/{key.pk}/change/", "quota-0-"
    Quota.objects.create(**limits)
    return page_of(None), ""


def test_limits_that_were_changed_meanwhile_are_not_overwritten(
    admin_page: Client, limits_page: tuple[str, str]
) -> None:
    address, prefix = limits_page
    early, late = Tab(admin_page, address), Tab(admin_page, address)
    assert late.save(**{f"{prefix}tokens_per_day": "50"}).status_code == 302
    assert is_refused(early.save(**{f"{prefix}requests_per_minute": "7"}))
    quota = Quota.objects.get()
    assert (quota.tokens_per_day, quota.requests_per_minute) == (50, None)
    fresh = Tab(admin_page, address)
    assert fresh.save(**{f"{prefix}requests_per_minute": "7"}).status_code == 302
    quota.refresh_from_db()
    assert (quota.tokens_per_day, quota.requests_per_minute) == (50, 7)
    told = "".join(AuditRecord.objects.values_list("after", flat=True))
    assert "requests_per_minute" in told and "seen" not in told


def test_limits_are_not_overwritten_by_a_change_of_something_else(
    admin_page: Client, person: User
) -> None:
    Quota.objects.create(user=person, tokens_per_day=1000)
    early = Tab(admin_page, page_of(person))
    Quota.objects.update(tokens_per_day=50)
    assert is_refused(early.save(name="Renamed"))
    assert Quota.objects.get().tokens_per_day == 50


def test_limits_given_in_both_tabs_are_given_once(admin_page: Client, person: User) -> None:
    tabs = [Tab(admin_page, page_of(person)) for _ in "ab"]
    new = {"quota-TOTAL_FORMS": "1", "quota-0-tokens_per_day": "50"}
    answers = [tab.save(**new) for tab in tabs]
    assert answers[0].status_code == 302
    assert is_refused(answers[1])
    assert Quota.objects.get().tokens_per_day == 50


def test_limits_taken_away_meanwhile_stay_away(admin_page: Client, person: User) -> None:
    Quota.objects.create(user=person, tokens_per_day=1000)
    early, late = (Tab(admin_page, page_of(person)) for _ in "ab")
    assert late.save(**{"quota-0-DELETE": "on"}).status_code == 302
    assert is_refused(early.save(**{"quota-0-tokens_per_day": "50"}))
    assert not Quota.objects.exists()


@pytest.mark.parametrize("meanwhile", ["switched off", "out of the group", "no administrator"])
def test_what_a_person_has_lost_does_not_come_back(
    admin_page: Client, person: User, meanwhile: str
) -> None:
    group = Group.objects.create(name="research")
    person.groups.add(group)
    User.objects.filter(pk=person.pk).update(is_superuser=True)
    early = Tab(admin_page, page_of(person))
    match meanwhile:
        case "switched off":
            User.objects.filter(pk=person.pk).update(is_active=False)
        case "out of the group":
            person.groups.clear()
        case _:
            User.objects.filter(pk=person.pk).update(is_superuser=False)
    assert is_refused(early.save(name="Renamed"))
    person.refresh_from_db()
    assert person.name == "Ada Park"


def test_a_sign_in_and_a_new_password_meanwhile_do_not_matter(
    admin_page: Client, person: User
) -> None:
    early = Tab(admin_page, page_of(person))
    signed_in(person)
    person.set_password("quite another 9")
    person.save()
    assert early.save(name="Renamed").status_code == 302


def test_permissions_that_a_group_has_lost_do_not_come_back(admin_page: Client) -> None:
    group = Group.objects.create(name="research")
    group.permissions.set(Permission.objects.filter(codename__in=["view_user", "change_user"]))
    same, early = (Tab(admin_page, page_of(group)) for _ in "ab")
    assert same.save().status_code == 302
    group.permissions.remove(Permission.objects.get(codename="change_user"))
    assert is_refused(early.save(name="Science"))
    assert list(group.permissions.values_list("codename", flat=True)) == ["view_user"]


def test_a_key_that_ends_sooner_now_is_not_made_to_last(admin_page: Client, person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    address = f"/admin/accounts/apikey/{key.pk}/change/"
    early, late = (Tab(admin_page, address) for _ in "ab")
    assert late.save(expires_at_0="2027-01-01", expires_at_1="00:00:00").status_code == 302
    assert is_refused(early.save(name="Renamed"))


def test_a_policy_that_was_switched_off_stays_off(admin_page: Client) -> None:
    Policy.objects.create(pk=1, may_read_conversations=True)
    early = Tab(admin_page, "/admin/accounts/policy/1/change/")
    Policy.objects.update(may_read_conversations=False)
    assert is_refused(early.save())


def test_who_may_only_look_is_asked_nothing(person: User) -> None:
    staff = User.objects.create_user("staff@example.org", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    group = Group.objects.create(name="research")
    for owner in (person, group):
        Quota.objects.create(**{"user" if owner is person else "group": owner}, weight=2)
        html = signed_in(staff).get(page_of(owner)).content.decode()
        assert "seen" not in Tab(signed_in(staff), page_of(owner)).fields
        assert 'name="quota-0-seen"' not in html

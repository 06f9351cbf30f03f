"""The pages that tell what holds, who set it, what is left and when there is more."""

from __future__ import annotations

import zoneinfo

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from accounts.invitations import create_service_account
from accounts.keys import create_api_key
from accounts.models import ApiKey, Quota, Spending, User
from hosting.models import HostedModel
from hosting.usage.limits import LimitLine

TOKYO = "Asia/Tokyo"


@pytest.fixture
def group(person: User) -> Group:
    group = Group.objects.create(name="research")
    person.groups.add(group)
    return group


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="cron")[0]


def lines(browser: Client, url: str) -> dict[str, LimitLine]:
    shown = browser.get(url).context["limits"]
    return {line.label: line for line in (*shown.metered, *shown.caps)}


def spend(subject: str, tokens: int) -> None:
    today = timezone.now().astimezone(zoneinfo.ZoneInfo(TOKYO)).date()
    Spending.objects.create(subject=subject, day=today, tokens=tokens)


def test_my_limits_say_what_is_left_and_who_set_them(
    page: Client, person: User, group: Group
) -> None:
    Quota.objects.create(group=group, tokens_per_day=1000, allowed_models=["demo"], time_zone=TOKYO)
    spend(f"user:{person.pk}", 400)
    shown = lines(page, "/limits/")
    assert (shown["Tokens a day"].left, shown["Tokens a day"].source) == ("600", "group research")
    assert shown["Tokens a day"].more.endswith(", 00:00 (Asia/Tokyo)")
    assert shown["Models"].value == "demo"
    assert (shown["Requests at once"].left, shown["Requests at once"].source) == (
        "8",
        "everybody, as installed",
    )


def test_a_limit_of_ones_own_is_told_as_that(page: Client, person: User) -> None:
    Quota.objects.create(user=person, requests_per_minute=60)
    assert lines(page, "/limits/")["Requests a minute"].source == "this account"


def test_models_of_other_groups_and_those_not_allowed_are_not_among_mine(
    page: Client, person: User, group: Group
) -> None:
    other = Group.objects.create(name="other")
    for name, allowed in (("open", []), ("mine", [group]), ("theirs", [other])):
        HostedModel.objects.create(name=name, path="/x").allowed_groups.set(allowed)
    HostedModel.objects.create(name="off", path="/x", is_enabled=False)
    assert sorted(page.get("/limits/").context["limits"].models) == ["mine", "open"]
    assert "Models that may be used: " in page.get("/limits/").content.decode()
    Quota.objects.create(user=person, allowed_models=["mine"])
    assert page.get("/limits/").context["limits"].models == ["mine"]


def test_what_nobody_set_is_said_to_be_unlimited(page: Client) -> None:
    unlimited = page.get("/limits/").context["limits"].unlimited
    assert "Tokens a day" in unlimited
    assert "Requests at once" not in unlimited
    assert "Models" not in unlimited  # which may be used is told beside it


def test_what_a_group_shares_is_told_beside_the_own_budget(
    page: Client, person: User, group: Group
) -> None:
    Quota.objects.create(
        group=group, tokens_per_day=1000, shared_tokens_per_day=5000, time_zone=TOKYO
    )
    spend(f"group:{group.pk}", 4990)
    shown = lines(page, "/limits/")
    assert shown["Tokens a day"].left == "1,000"
    assert shown["Tokens a day, of the group research together"].left == "10"


def test_a_keys_page_tells_the_narrower_one(page: Client, person: User, key: ApiKey) -> None:
    Quota.objects.create(user=person, tokens_per_day=1000, max_output_tokens=50, time_zone=TOKYO)
    Quota.objects.create(api_key=key, tokens_per_day=10, max_output_tokens=5, time_zone=TOKYO)
    spend(f"user:{person.pk}", 4)
    shown = lines(page, f"/limits/keys/{key.pk}/")
    assert shown["Tokens a day"].left == "996"
    assert shown["Tokens a day, by this key alone"].left == "10"
    assert (shown["Longest answer"].value, shown["Longest answer"].source) == (
        "5 tokens",
        "this key",
    )


def test_administrators_see_a_persons_limits_and_service_keys(person: User) -> None:
    root = User.objects.create_superuser("root@example.org")
    service = create_service_account("nightly", by=root)
    service_key, _ = create_api_key(user=service, name="cron")
    browser = Client()
    browser.force_login(root)
    assert "Limits of Ada" in browser.get(f"/limits/people/{person.pk}/").content.decode()
    assert browser.get(f"/limits/keys/{service_key.pk}/").status_code == 200

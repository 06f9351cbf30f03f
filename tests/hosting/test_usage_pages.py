"""My usage, and the team's, for who may see it."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from accounts.keys import create_api_key
from accounts.models import AuditRecord, UsageRecord, User
from accounts.rollups import roll_up_what_is_new


@pytest.fixture
def used(person: User, stranger: User) -> None:
    key, _ = create_api_key(user=person, name="=cron")
    for user, tokens in ((person, 1234), (stranger, 777)):
        UsageRecord.objects.create(
            generation_id=uuid.uuid4(),
            user=user,
            api_key=key if user == person else None,
            model_name="demo",
            prompt_tokens=tokens,
            end="stop",
        )
    roll_up_what_is_new()


def of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def test_my_page_tells_my_use_and_nobody_elses(page: Client, used: None) -> None:
    text = page.get("/usage/").content.decode()
    assert "1234" in text and "777" not in text
    assert "=cron" in text


@pytest.mark.parametrize("window", ["day", "week", "quarter", "year", "nonsense"])
def test_every_window_opens(page: Client, used: None, window: str) -> None:
    response = page.get("/usage/", {"window": window, "model": "demo", "key": "x"})
    assert response.context["total"].requests == 1


def test_members_do_not_see_the_teams_usage(page: Client) -> None:
    assert page.get("/usage/team/").status_code == 403
    assert page.get("/usage/team/csv").status_code == 403


def test_a_manager_sees_their_groups_only(person: User, stranger: User, used: None) -> None:
    group = Group.objects.create(name="research")
    stranger.groups.add(group)
    person.manages.add(group)
    browser = of(person)
    assert browser.get("/usage/team/").context["total"].prompt_tokens == 777
    asked = browser.get("/usage/team/", {"person": person.pk})
    assert asked.context["asked"].person is None


def test_an_administrator_sees_everybody_and_filters(person: User, used: None) -> None:
    root = User.objects.create_superuser("root@example.org")
    browser = of(root)
    assert browser.get("/usage/team/").context["total"].requests == 2
    only = browser.get("/usage/team/", {"person": person.pk}).context["total"]
    assert only.prompt_tokens == 1234
    csv = browser.get("/usage/team/csv").content.decode().splitlines()
    assert csv[0].startswith("person,requests,errors,prompt_tokens")
    assert csv[1].startswith("Ada,1,0,1234")
    assert AuditRecord.objects.filter(action="usage.export").exists()


def test_the_file_names_everybody_and_the_page_the_largest(person: User, used: None) -> None:
    for number in range(120):
        user = User.objects.create_user(f"p{number}@example.org")
        UsageRecord.objects.create(
            generation_id=uuid.uuid4(), user=user, model_name="demo", prompt_tokens=1, end="stop"
        )
    roll_up_what_is_new()
    person.is_superuser = True
    person.save()
    browser = of(person)
    assert len(browser.get("/usage/team/csv").content.splitlines()) == 1 + 122
    people = dict(browser.get("/usage/team/").context["tables"])["People"]
    assert len(people) == 100
    assert people[0].prompt_tokens == 1234


def test_a_spreadsheet_takes_no_name_for_a_formula(page: Client, used: None) -> None:
    UsageRecord.objects.update(model_name="=1+1")
    roll_up_what_is_new()
    assert "'=1+1" in page.get("/usage/csv").content.decode()

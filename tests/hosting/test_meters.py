"""What is used of a limit: of the last minute whatever was in it, of a day whatever its length."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.limits import allowance_of
from accounts.models import ApiKey, Quota, Spending, UsageRecord, User
from hosting.actions.meters import Meter, meters_of
from hosting.actions.uses import uses_of
from hosting.actions.waiting import wait_seconds
from hosting.models import Generation


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="script")[0]


def ended(person: User, *, seconds_ago: int, tokens: int = 0, api_key: ApiKey | None = None) -> Any:
    """A generation that took no time, and its line."""
    at = timezone.now() - datetime.timedelta(seconds=seconds_ago)
    pk = uuid.uuid4()
    shared = {"user": person, "api_key": api_key, "kind": "api", "model_name": "demo"}
    Generation.objects.create(pk=pk, created_at=at, finished_at=at, state="done", **shared)
    UsageRecord.objects.create(generation_id=pk, created_at=at, charged_tokens=tokens, **shared)


def the_meter(
    person: User, key: ApiKey | None = None, at: datetime.datetime | None = None
) -> Meter:
    """Of the one limit that is set."""
    found = meters_of(person, key, allowance_of(person, key), at or timezone.now())
    [meter] = [one for one in found if one.name != "max_concurrent"]
    return meter


def test_a_busy_minute_is_added_up_by_the_database(person: User, key: ApiKey) -> None:
    for _ in range(20):
        ended(person, seconds_ago=5, tokens=7, api_key=key)
    parts = uses_of(person.pk, timezone.now(), counts_requests=True, counts_tokens=True)
    assert sorted((one.what, one.api_key_id, one.number) for one in parts) == [
        ("began", key.pk, 20),
        ("ended", key.pk, 20),
    ]
    assert next(one.tokens for one in parts if one.what == "ended") == 140


def test_of_a_person_only_what_is_open_is_looked_at(person: User) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL walks over short tables")
    sql, parameters = Generation.objects.of(person.pk).open().order_by().query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        assert "generations_open_of_person" in cursor.fetchone()[3]


def test_what_ends_while_it_is_looked_at_is_not_missed(person: User, key: ApiKey) -> None:
    """Its reservation is read before its cost, so one of them is there."""
    group = Group.objects.create(name="research")
    person.groups.add(group)
    for whose in ({"user": person}, {"api_key": key}, {"group": group, "shared_tokens_per_day": 9}):
        Quota.objects.create(tokens_per_day=9, tokens_per_month=9, **whose)
    allowance = allowance_of(person, key)
    with CaptureQueriesContext(connection) as asked:
        meters_of(person, key, allowance, timezone.now())
    tables = ["spending" if "accounts_spending" in one["sql"] else "open" for one in asked]
    assert tables == ["open", "open", "spending"]


def test_a_person_uses_what_all_their_keys_and_the_chat_do(person: User, key: ApiKey) -> None:
    Quota.objects.create(user=person, tokens_per_minute=100)
    ended(person, seconds_ago=59, tokens=10)
    ended(person, seconds_ago=30, tokens=20, api_key=key)
    ended(person, seconds_ago=61, tokens=40)
    assert the_meter(person, key).used == 30


def test_a_key_waits_for_its_own_requests_alone(person: User, key: ApiKey) -> None:
    Quota.objects.create(api_key=key, requests_per_minute=2)
    for seconds_ago in (40, 20):
        ended(person, seconds_ago=seconds_ago, api_key=key)
    ended(person, seconds_ago=55)
    now, meter = timezone.now(), the_meter(person, key)
    assert meter.used == 2
    assert 18 < wait_seconds(person, meter, 1, now) <= 20


def test_tokens_are_waited_for_until_enough_of_them_have_left(person: User) -> None:
    Quota.objects.create(user=person, tokens_per_minute=100)
    for seconds_ago in (50, 30, 10):
        ended(person, seconds_ago=seconds_ago, tokens=30)
    now, meter = timezone.now(), the_meter(person)
    assert 28 < wait_seconds(person, meter, 60, now) <= 30


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute"])
def test_what_was_before_the_clock_was_set_back_is_over(person: User, limit: str) -> None:
    Quota.objects.create(user=person, **{limit: 1})
    ended(person, seconds_ago=-3600, tokens=1)
    assert the_meter(person).used == 0
    ended(person, seconds_ago=-5, tokens=1)  # by a machine whose clock goes a little before
    now, meter = timezone.now(), the_meter(person)
    assert meter.used == 1
    assert 60 < wait_seconds(person, meter, 1, now) <= 65


@pytest.mark.parametrize(
    ("zone", "now", "hours_left"),
    [
        ("Europe/Prague", "2026-03-28T23:30Z", 22.5),  # the day has 23 hours
        ("Europe/Prague", "2026-10-24T22:30Z", 24.5),  # and this one 25
        ("America/Santiago", "2026-09-05T05:00Z", 23),  # the next begins at 1 o'clock
        ("Pacific/Apia", "2026-06-30T10:30Z", 0.5),  # 13 hours ahead
    ],
)
def test_a_day_is_as_long_as_it_is_there(
    person: User, zone: str, now: str, hours_left: float
) -> None:
    Quota.objects.create(user=person, tokens_per_day=100, time_zone=zone)
    moment = datetime.datetime.fromisoformat(now)
    meter = the_meter(person, at=moment)
    left = meter.resets_at - moment
    assert left == datetime.timedelta(hours=hours_left)
    before, after = (moment + left + datetime.timedelta(seconds=s) for s in (-1, 1))
    subject = f"user:{person.pk}"
    Spending.objects.create(
        subject=subject, day=allowance_of(person).person.today(before), tokens=60
    )
    assert [the_meter(person, at=at).used for at in (moment, before, after)] == [60, 60, 0]

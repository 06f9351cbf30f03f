"""Sums by hour and day, and what pages make of them, against the ledger itself."""

from __future__ import annotations

import datetime
import uuid

import pytest
from django.db.models import Q
from django.utils import timezone

from accounts.figures import Choice, Sums, Usage, UsageOverTime
from accounts.models import DailyUsage, HourlyUsage, UsageRecord, User, WeeklyUsage
from accounts.rollups import roll_up_what_is_new

NOW = timezone.now()


def write(user: User, *, hours_ago: float, **fields: object) -> None:
    values = {"model_name": "demo", "prompt_tokens": 100, "completion_tokens": 10, "end": "stop"}
    UsageRecord.objects.create(
        generation_id=uuid.uuid4(),
        user=user,
        created_at=NOW - datetime.timedelta(hours=hours_ago),
        **(values | fields),
    )


@pytest.fixture
def ledger(person: User, stranger: User) -> None:
    for hours_ago in (0, 3, 30, 24 * 20):
        write(person, hours_ago=hours_ago, ttft_seconds=0.3, cached_tokens=50)
    write(person, hours_ago=3, model_name="other", end="failed")
    write(stranger, hours_ago=3, ttft_seconds=6.0)
    roll_up_what_is_new()


def days(number: int, **fields: Q | str) -> Choice:
    return Choice(first=NOW - datetime.timedelta(days=number), last=NOW, **fields)


def test_hours_and_days_hold_the_whole_ledger(ledger: None) -> None:
    for model in (HourlyUsage, DailyUsage, WeeklyUsage):
        assert sum(row.requests for row in model.objects.all()) == 6
        assert sum(row.prompt_tokens for row in model.objects.all()) == 600


def test_again_gives_the_same_and_finds_what_is_new(ledger: None, person: User) -> None:
    write(person, hours_ago=0)
    roll_up_what_is_new()
    roll_up_what_is_new()
    assert Usage(days(30)).total.requests == 7


def test_totals_are_of_whom_and_when_was_asked(ledger: None, person: User) -> None:
    assert Usage(days(30)).total.requests == 6
    assert Usage(days(7)).total.requests == 5
    assert Usage(days(7, whose=Q(user=person))).total.requests == 4
    failed = Usage(days(7, model_name="other")).total
    assert (failed.requests, failed.errors) == (1, 1)


def test_a_short_time_is_told_by_the_hour(ledger: None) -> None:
    usage = UsageOverTime(days(1), "model_name")
    assert len(usage.times) == 25
    assert sum(one.requests for one in usage.sums) == 4


def test_a_year_is_told_by_the_week(ledger: None) -> None:
    usage = UsageOverTime(days(364), "model_name")
    assert len(usage.times) == 53
    assert {time.weekday() for time in usage.times} == {0}
    assert sum(one.requests for one in usage.sums) == Usage(days(364)).total.requests == 6


def test_totals_are_exact_to_the_day_however_long_the_time(person: User) -> None:
    for number in range(24):
        write(person, hours_ago=24 * number)
    roll_up_what_is_new()
    assert [Usage(days(number)).total.requests for number in range(3, 23)] == [*range(4, 24)]


def test_the_largest_comes_first(ledger: None, person: User, stranger: User) -> None:
    assert [row.label for row in Usage(days(30)).by("user_id")] == [
        str(person.pk),
        str(stranger.pk),
    ]


def test_tokens_by_model_over_time_leave_none_out(ledger: None) -> None:
    found = UsageOverTime(days(30), "model_name").tokens(["demo"])
    assert sum(found["demo"]) == 5 * 110
    assert sum(found[""]) == 110


def test_percentiles_come_from_the_counts(ledger: None, person: User) -> None:
    sums = Usage(days(30)).total
    assert sums.ttft_p50 is not None and 0.25 <= sums.ttft_p50 <= 0.5
    assert sums.ttft_p95 is not None and 4 <= sums.ttft_p95 <= 8
    assert Sums().ttft_p50 is None
    assert sums.cached_percent == pytest.approx(100 * 200 / 600)

"""The sums equal the ledger whatever came late, out of order, or broke off in the middle."""

from __future__ import annotations

import datetime
import random
import uuid
from typing import Any

import pytest
from django.db import OperationalError, connection, models
from django.db.models import Sum
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import DailyUsage, HourlyUsage, RollUpMark, UsageRecord, User, WeeklyUsage
from accounts.rollups import roll_up_what_is_new

NOW = timezone.now()
LEVELS: tuple[Any, ...] = (HourlyUsage, DailyUsage, WeeklyUsage)


class BrokeOff(OperationalError):
    """The process was killed here."""


def write(user: User, *, ago: datetime.timedelta, **fields: Any) -> UsageRecord:
    values = {"model_name": "demo", "prompt_tokens": 7, "completion_tokens": 3, "end": "stop"}
    return UsageRecord.objects.create(
        generation_id=uuid.uuid4(), user=user, created_at=NOW - ago, **(values | fields)
    )


def hours(number: float) -> datetime.timedelta:
    return datetime.timedelta(hours=number)


def assert_sums_equal_the_ledger() -> None:
    columns = ("prompt_tokens", "cached_tokens", "completion_tokens")
    ledger = UsageRecord.objects.aggregate(requests=models.Count("id"), **_sums(*columns))
    for level in LEVELS:
        assert level.objects.aggregate(**_sums("requests", *columns)) == ledger, level


def _sums(*columns: str) -> dict[str, Any]:
    return {name: Sum(name) for name in columns}


def let_time_pass() -> None:
    """Until what was new is settled."""
    moment = timezone.now() - datetime.timedelta(hours=1)
    for _ in range(2):
        RollUpMark.objects.update(seen_at=moment)
        roll_up_what_is_new()


def test_a_line_that_comes_months_late_is_counted(person: User) -> None:
    write(person, ago=hours(1))
    let_time_pass()
    assert RollUpMark.objects.get().settled_id == UsageRecord.objects.get().pk
    write(person, ago=hours(24 * 100))
    roll_up_what_is_new()
    assert_sums_equal_the_ledger()


def test_a_smaller_id_that_is_committed_later_is_counted(person: User) -> None:
    first = write(person, ago=hours(50))
    let_time_pass()
    write(person, ago=hours(1), id=first.pk + 2)
    roll_up_what_is_new()
    write(person, ago=hours(30), id=first.pk + 1)
    roll_up_what_is_new()
    assert_sums_equal_the_ledger()


def test_what_is_settled_is_not_summed_again(
    person: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        write(person, ago=hours(24 * number))
    roll_up_what_is_new()
    let_time_pass()
    with django_assert_max_num_queries(4):
        roll_up_what_is_new()


def test_days_begin_at_midnight_utc_whatever_the_clock_here(person: User, settings: Any) -> None:
    settings.TIME_ZONE = "Pacific/Kiritimati"
    midnight = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)  # a Monday
    for second in (-1, 0):
        moment = midnight + datetime.timedelta(seconds=second)
        write(person, ago=NOW - moment)
    roll_up_what_is_new()
    assert list(DailyUsage.objects.values_list("period", flat=True)) == [
        datetime.date(2026, 3, 2),
        datetime.date(2026, 3, 1),
    ]
    assert list(WeeklyUsage.objects.values_list("period", flat=True)) == [
        datetime.date(2026, 3, 2),
        datetime.date(2026, 2, 23),
    ]
    assert HourlyUsage.objects.latest("period").period == midnight


@pytest.mark.django_db(transaction=True)
def test_a_roll_up_that_broke_off_anywhere_is_made_up_for() -> None:
    user = User.objects.create_user("ada@example.org")
    key, _ = create_api_key(user=user, name="script")
    chance = random.Random(7)
    for after in range(0, 26, 2):
        write(
            user,
            ago=hours(chance.choice([0, 24 * 9])),
            api_key=chance.choice([None, key]),
            model_name=chance.choice(["demo", "other"]),
        )
        broke_off = _roll_up_until(after)
        roll_up_what_is_new()
        assert_sums_equal_the_ledger()
    assert not broke_off, "the last rounds should have come to their end"


def _roll_up_until(num_statements: int) -> bool:
    """True when it was broken off after so many statements."""
    left = num_statements

    def count_down(execute: Any, *arguments: Any) -> Any:
        nonlocal left
        if left == 0:
            raise BrokeOff
        left -= 1
        return execute(*arguments)

    try:
        with connection.execute_wrapper(count_down):
            roll_up_what_is_new()
    except BrokeOff:
        return True
    return False

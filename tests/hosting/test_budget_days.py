"""Which day pays for what began before a midnight and ended after it, wherever that midnight is."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accounts.keys import create_api_key
from accounts.limits import Allowance, Limits, allowance_of
from accounts.models import ApiKey, Quota, Spending, User
from hosting.actions.generations import start_generation
from hosting.actions.limit_refusals import LimitMet
from hosting.actions.meters import Meter, meters_of
from hosting.actions.orders import Order
from hosting.models import Generation, HostedModel
from tests.hosting.test_admission import COST, HELLO, end

ZONES = sorted(zoneinfo.available_timezones())
SECOND = datetime.timedelta(seconds=1)
INSTANT = datetime.timedelta(microseconds=1)
MIDNIGHTS = [  # the zone, and a moment of the day before
    ("UTC", "2026-11-21T12:00Z"),
    ("Asia/Kathmandu", "2026-11-21T06:00Z"),
    ("America/St_Johns", "2026-03-07T12:00Z"),  # the next day has 23 hours
    ("America/St_Johns", "2026-11-01T12:00Z"),  # this one has 25
    ("Pacific/Apia", "2011-12-29T22:00Z"),  # the next day is left out
    ("America/Santiago", "2026-09-05T12:00Z"),  # there is no midnight
    ("Africa/Cairo", "2026-10-29T12:00Z"),  # the last hour comes twice
    ("Europe/Prague", "2026-12-31T12:00Z"),  # a month and a year end
]
Ask = Callable[..., Generation]
Clock = Callable[[datetime.datetime], None]


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def midnight(zone: str, before: datetime.datetime) -> datetime.datetime:
    """The first moment of the next day there, found without any arithmetic of days."""
    there = zoneinfo.ZoneInfo(zone)
    low, high = before, before + datetime.timedelta(hours=36)
    while high - low > INSTANT:
        middle = low + (high - low) // 2
        is_same_day = middle.astimezone(there).date() == before.astimezone(there).date()
        low, high = (middle, high) if is_same_day else (low, middle)
    return high


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Says what time it is."""
    return lambda now: monkeypatch.setattr(timezone, "now", lambda: now)


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="script")[0]


@pytest.fixture
def ask(person: User, model: HostedModel) -> Ask:
    def ask(**changes: object) -> Generation:
        kind = Generation.Kind.API
        order = Order(user=person, kind=kind, model=model, messages=HELLO, max_tokens=10, **changes)  # type: ignore[arg-type]
        return start_generation(order)

    return ask


def meter_of(person: User, name: str = "tokens_per_day", key: ApiKey | None = None) -> Meter:
    """The narrowest of that name."""
    found = meters_of(person, key, allowance_of(person, key), timezone.now())
    return [one for one in found if one.name == name][-1]


@given(
    zone=st.sampled_from(ZONES),
    now=st.datetimes(
        datetime.datetime(2026, 1, 1),
        datetime.datetime(2040, 1, 1),
        timezones=st.just(datetime.UTC),
    ),
)
@example(zone="America/Santiago", now=moment("2026-09-06T03:59:59Z"))
@example(zone="Pacific/Apia", now=moment("2011-12-29T22:00Z"))
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_day_ends_when_the_next_begins(person: User, zone: str, now: datetime.datetime) -> None:
    limits = Limits(
        tokens_per_day=1, sources={"tokens_per_day": "person"}, zone=zoneinfo.ZoneInfo(zone)
    )
    allowance = Allowance(person=limits, key=None, effective=limits)
    [meter] = meters_of(person, None, allowance, now)
    ends_at = meter.resets_at.astimezone(datetime.UTC)
    assert ends_at == midnight(zone, now)
    assert limits.today(ends_at - INSTANT) == limits.today(now) < limits.today(ends_at)


@pytest.mark.parametrize(("zone", "before"), MIDNIGHTS)
def test_what_ends_at_midnight_is_charged_to_the_new_day(
    ask: Ask, person: User, clock: Clock, zone: str, before: str
) -> None:
    Quota.objects.create(
        user=person, tokens_per_day=2 * COST, tokens_per_month=9 * COST, time_zone=zone
    )
    new_day = midnight(zone, moment(before))
    clock(new_day - SECOND)
    early, late = ask(), ask()
    with pytest.raises(LimitMet):
        ask()
    clock(new_day - INSTANT)
    end(early)
    old_date, new_date = (
        one.astimezone(zoneinfo.ZoneInfo(zone)).date() for one in (new_day - INSTANT, new_day)
    )
    assert (meter_of(person).used, meter_of(person).reserved) == (10, COST)
    clock(new_day)
    assert (meter_of(person).used, meter_of(person).reserved) == (0, COST)
    end(late)
    assert (meter_of(person).used, meter_of(person).reserved) == (10, 0)
    assert list(Spending.objects.order_by("day").values_list("day", "tokens")) == [
        (old_date, 10),
        (new_date, 10),
    ]
    of_month = meter_of(person, "tokens_per_month")
    assert (of_month.used, of_month.reserved) == (10 if new_date.day == 1 else 20, 0)


def test_what_is_reserved_over_midnight_is_not_given_out_twice(
    ask: Ask, person: User, clock: Clock
) -> None:
    Quota.objects.create(user=person, tokens_per_day=COST + 9, time_zone="Asia/Kathmandu")
    new_day = midnight("Asia/Kathmandu", moment("2026-11-21T06:00Z"))
    clock(new_day - SECOND)
    open_one = ask()
    clock(new_day)
    with pytest.raises(LimitMet) as refused:
        ask()
    assert not refused.value.is_final
    end(open_one, prompt=COST - 1, completion=1)
    with pytest.raises(LimitMet) as refused:
        ask()
    assert refused.value.is_final


@pytest.mark.parametrize("zone_of_key", ["", "Pacific/Apia"])
@pytest.mark.parametrize("limited", ["person", "key"])
def test_the_days_of_a_key_are_those_of_its_person(
    ask: Ask, person: User, key: ApiKey, clock: Clock, limited: str, zone_of_key: str
) -> None:
    """What is charged to one day by the one must not be looked for in another by the other."""
    budget = {"tokens_per_day": COST + 9}
    zone = "Asia/Kathmandu"
    Quota.objects.create(user=person, time_zone=zone, **(budget if limited == "person" else {}))
    Quota.objects.create(
        api_key=key, time_zone=zone_of_key, **(budget if limited == "key" else {"weight": 1})
    )
    for step in range(0, 24, 3):  # each on a day of its own, at another hour
        clock(moment("2026-11-21T01:00Z") + datetime.timedelta(days=step, hours=step))
        end(ask(api_key=key), prompt=COST, completion=0)
        with pytest.raises(LimitMet):
            ask(api_key=key)
        assert meter_of(person, key=key).used == COST


def test_of_two_groups_one_always_says_where_days_begin(person: User, ask: Ask) -> None:
    first, second = (Group.objects.create(name=name) for name in ("b", "a"))
    person.groups.add(second, first)
    Quota.objects.create(group=second, time_zone="Pacific/Apia")
    Quota.objects.create(group=first, time_zone="Asia/Kathmandu")
    Quota.objects.filter(group=second).update(weight=1)  # rows that change move in PostgreSQL
    assert ask().time_zone == "Pacific/Apia"

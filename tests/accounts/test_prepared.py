"""A prepared query finds what the ORM's own does, each time with other values."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import IntegrityError
from django.db.models import Count, F, Max, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler, SQLUpdateCompiler
from django.forms.models import model_to_dict

from accounts.keys import create_api_key
from accounts.models import ApiKey, Spending, UsageRecord, User
from accounts.prepared import Given, Update, insert_rows, prepared, prepared_update, update_rows

pytestmark = pytest.mark.django_db

FIRST = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def _people() -> None:
    for number in range(4):
        User.objects.create_user(f"p{number}@example.org", date_joined=FIRST + number * DAY)


def joined_after(after: Any, email: Any) -> QuerySet[Any, Any]:
    people = User.objects.order_by()
    later = people.filter(date_joined__gt=after).values("is_active")
    named = people.filter(email=email).values("is_active")
    columns = {"number": Count("pk"), "newest": Max("date_joined")}
    parts = (
        rows.annotate(what=Value(what), **columns).values_list("what", "number", "newest")
        for rows, what in ((later, "later"), (named, "named"))
    )
    return next(parts).union(*parts, all=True)


@prepared
def _joined() -> QuerySet[Any, Any]:
    return joined_after(Given("after"), Given("email"))


@prepared
def _active(*, is_active: bool) -> QuerySet[Any, Any]:
    return User.objects.filter(is_active=is_active, email=Given("email")).values_list("email")


@prepared
def _keys() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("user", "replaced_by").filter(name=Given("name"))


@pytest.mark.parametrize("day", [0, 2])
def test_it_finds_what_the_orm_finds(day: int) -> None:
    after, email = FIRST + day * DAY, f"p{day}@example.org"
    rows = _joined().rows(after=after, email=email)
    assert sorted(rows) == sorted(joined_after(after, email))
    assert ("later", 3 - day, FIRST + 3 * DAY) in rows


def test_it_makes_the_objects_that_the_orm_makes(
    django_assert_num_queries: Callable[[int], AbstractContextManager[Any]],
) -> None:
    user = User.objects.get(email="p1@example.org")
    old, _ = create_api_key(user=user, name="laptop", scopes=["chat"], expires_at=FIRST + DAY)
    new, _ = create_api_key(user=user, name="desk")
    ApiKey.objects.filter(pk=old.pk).update(replaced_by=new)
    _keys().objects(name="nobody's")
    with django_assert_num_queries(1):
        (found,) = _keys().objects(name="laptop")
        assert (found.user, found.replaced_by) == (user, new)
    expected = ApiKey.objects.select_related("user", "replaced_by").get(pk=old.pk)
    for one, other in ((found, expected), (found.user, user), (found.replaced_by, new)):
        assert model_to_dict(one) == model_to_dict(other)
    assert (found.scopes, found.expires_at) == (["chat"], FIRST + DAY)
    (unrelated,) = _keys().objects(name="desk")
    assert unrelated.replaced_by is None

    found.name = "renamed"
    found.save()
    assert ApiKey.objects.get(pk=old.pk).name == "renamed", "and they are rows as others are"


def test_each_form_of_it_is_another_query() -> None:
    assert _active(is_active=True).rows(email="p1@example.org") == [("p1@example.org",)]
    assert _active(is_active=False).rows(email="p1@example.org") == []


def test_values_are_never_part_of_its_sql() -> None:
    nasty = "x' OR 1=1 --"
    assert _active(is_active=True).rows(email=nasty) == []
    User.objects.create_user("q%s@example.org")
    assert _active(is_active=True).rows(email="q%s@example.org") == [("q%s@example.org",)]


def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _active(is_active=True).rows(email="p1@example.org")
    monkeypatch.delattr(SQLCompiler, "as_sql")
    assert _active(is_active=True).rows(email="p2@example.org") == [("p2@example.org",)]


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="email"):
        _active(is_active=True).rows()


@prepared
def _line() -> QuerySet[UsageRecord]:
    return UsageRecord.objects.filter(generation_id=Given("generation"))


def test_rows_get_what_the_orm_would_give_them() -> None:
    ann, bob, other = User.objects.order_by("pk")[:3]
    moment = FIRST + 7 * DAY
    update_rows(
        User,
        {
            ann.pk: {"name": "Ann", "last_login": moment, "is_active": False},
            bob.pk: {"name": "Bob", "last_login": None, "is_active": True},
        },
    )
    found = User.objects.in_bulk([ann.pk, bob.pk, other.pk])
    assert (found[ann.pk].name, found[ann.pk].last_login) == ("Ann", moment)
    assert not found[ann.pk].is_active
    assert (found[bob.pk].name, found[bob.pk].last_login) == ("Bob", None)
    assert model_to_dict(found[other.pk]) == model_to_dict(other)


def test_to_write_no_rows_asks_nothing(
    django_assert_num_queries: Callable[[int], AbstractContextManager[Any]],
) -> None:
    with django_assert_num_queries(0):
        update_rows(User, {})
        insert_rows([])


def test_rows_are_found_by_a_uuid() -> None:
    line = UsageRecord.objects.create(generation_id=uuid.uuid4(), model_name="demo", end="stop")
    assert _line().objects(generation=line.generation_id) == [line]
    assert _line().objects(generation=uuid.uuid4()) == []


def test_an_inserted_row_is_the_one_that_save_makes() -> None:
    def made(number: int) -> UsageRecord:
        return UsageRecord(
            generation_id=uuid.UUID(int=number),
            user=User.objects.get(email="p1@example.org"),
            kind=UsageRecord.Kind.API,
            model_name="it's 100 % \N{GRINNING FACE}",
            prompt_tokens=2**40,
            queued_seconds=0.25,
            created_at=FIRST,
        )

    saved, inserted = made(1), made(2)
    saved.pk, inserted.pk = 1001, 1002
    saved.save(force_insert=True)
    insert_rows([inserted])
    assert (inserted._state.adding, inserted._state.db) == (False, saved._state.db)
    rows = [model_to_dict(UsageRecord.objects.get(pk=one.pk)) for one in (saved, inserted)]
    differing = {name for name in rows[0] if rows[0][name] != rows[1][name]}
    assert differing <= {"id", "generation_id"}


def test_a_row_is_inserted_once() -> None:
    person = User.objects.get(email="p1@example.org")
    with pytest.raises(IntegrityError):
        insert_rows([User(pk=person.pk, email="another@example.org")])


def test_rows_that_the_database_numbers_are_those_of_bulk_create(
    django_assert_num_queries: Callable[[int], AbstractContextManager[Any]],
) -> None:
    def made(number: int) -> UsageRecord:
        return UsageRecord(generation_id=uuid.UUID(int=number), model_name="demo", end="stop")

    UsageRecord.objects.bulk_create([made(1)])
    with django_assert_num_queries(1):
        insert_rows([made(2), made(3)])
    rows = [
        model_to_dict(one, exclude=["id", "generation_id", "created_at"])
        for one in UsageRecord.objects.filter(
            generation_id__in=[made(n).generation_id for n in (1, 2, 3)]
        )
    ]
    assert rows == 3 * rows[:1]
    assert UsageRecord.objects.values("pk").distinct().count() == 3


@prepared_update
def _more() -> Update:
    rows = Spending.objects.filter(subject=Given("subject"), day__gte=Given("day"))
    return Update(rows, {"tokens": F("tokens") + Given("tokens")})


def test_a_prepared_update_is_the_one_of_the_orm(monkeypatch: pytest.MonkeyPatch) -> None:
    today, yesterday = FIRST.date(), (FIRST - DAY).date()
    for subject in ("user:1", "user:2"):
        for day in (yesterday, today):
            Spending.objects.create(subject=subject, day=day, tokens=100)
    assert _more(subject="user:1", day=today, tokens=7) == 1
    monkeypatch.delattr(SQLUpdateCompiler, "as_sql")
    assert _more(subject="user:1", day=yesterday, tokens=2**40) == 2
    assert _more(subject="user:3", day=yesterday, tokens=1) == 0
    counted = Spending.objects.order_by("subject", "day").values_list("tokens", flat=True)
    assert list(counted) == [100 + 2**40, 107 + 2**40, 100, 100]

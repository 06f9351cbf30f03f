"""Which limit holds, and who set it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from accounts.keys import create_api_key
from accounts.limits import allowance_of
from accounts.models import ApiKey, Quota, User


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="laptop")[0]


@pytest.fixture
def group(person: User) -> Group:
    group = Group.objects.create(name="research")
    person.groups.add(group)
    return group


def test_without_settings_only_concurrency_is_limited(person: User) -> None:
    limits = allowance_of(person).effective
    assert (limits.max_concurrent, limits.sources["max_concurrent"]) == (8, "default")
    assert limits.tokens_per_day is None
    assert limits.requests_per_minute is None


@pytest.mark.parametrize(
    ("of_group", "of_person", "of_key", "holds", "source"),
    [
        (100, None, None, 100, "group research"),
        (100, 50, None, 50, "person"),
        (100, 500, None, 100, "group research"),
        (100, 50, 20, 20, "key"),
        (100, None, 200, 100, "group research"),
        (None, 500, None, 500, "person"),
        (None, None, 0, 0, "key"),
    ],
)
def test_a_narrower_limit_only_lowers(
    person: User, group: Group, key: ApiKey, of_group: Any, of_person: Any, of_key: Any,
    holds: int, source: str,
) -> None:  # fmt: skip
    Quota.objects.create(group=group, tokens_per_day=of_group)
    Quota.objects.create(user=person, tokens_per_day=of_person)
    Quota.objects.create(api_key=key, tokens_per_day=of_key)
    limits = allowance_of(person, key).effective
    assert (limits.tokens_per_day, limits.sources["tokens_per_day"]) == (holds, source)


def test_a_key_does_not_limit_its_person(person: User, key: ApiKey) -> None:
    Quota.objects.create(api_key=key, tokens_per_day=5)
    allowance = allowance_of(person, key)
    assert allowance.person.tokens_per_day is None
    assert allowance.key is not None and allowance.key.tokens_per_day == 5


def test_of_several_groups_the_most_generous_counts(person: User, group: Group) -> None:
    other = Group.objects.create(name="everyone")
    person.groups.add(other)
    Quota.objects.create(group=group, weight=2, highest_class="api", cached_tokens_count="none")
    Quota.objects.create(group=other, weight=1, highest_class="batch", tokens_per_day=9)
    limits = allowance_of(person).effective
    assert (limits.weight, limits.highest_class, limits.cached_weight) == (2, "api", 0)
    assert limits.tokens_per_day == 9


def test_models_of_key_and_group_meet(person: User, group: Group, key: ApiKey) -> None:
    Quota.objects.create(group=group, allowed_models=["a", "b"])
    Quota.objects.create(api_key=key, allowed_models=["b", "c"])
    limits = allowance_of(person, key).effective
    assert [name for name in "abc" if limits.may_use(name)] == ["b"]


def test_everybodys_limits_hold_where_nothing_else_is_set(person: User, group: Group) -> None:
    Quota.objects.create(max_concurrent=3, requests_per_minute=60)
    Quota.objects.create(group=group, max_concurrent=20)
    limits = allowance_of(person).effective
    assert (limits.max_concurrent, limits.requests_per_minute) == (20, 60)


def test_somebody_elses_limits_do_not_matter(person: User, stranger: User, key: ApiKey) -> None:
    Quota.objects.create(user=stranger, tokens_per_day=1)
    Quota.objects.create(api_key=key, tokens_per_day=2)
    assert allowance_of(person).effective.tokens_per_day is None


def test_limits_belong_to_one_owner_at_most(person: User, group: Group) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(user=person, group=group)

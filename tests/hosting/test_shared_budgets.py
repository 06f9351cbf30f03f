"""What a group may use together holds exactly, whoever of it asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from accounts.models import Quota, Spending, User
from hosting.actions.generations import start_generation
from hosting.actions.limit_refusals import LimitMet
from hosting.actions.orders import Order
from hosting.models import Generation, HostedModel
from tests.hosting.test_admission import COST, HELLO, at_once, command_of, end

Ask = Callable[..., Generation]


@pytest.fixture
def group(transactional_db: None) -> Group:
    return Group.objects.create(name="research")


@pytest.fixture
def people(group: Group) -> list[User]:
    found = [User.objects.create_user(f"p{number}@example.org") for number in range(5)]
    group.user_set.add(*found)
    return found


@pytest.fixture
def ask(model: HostedModel) -> Ask:
    def ask(user: User, **changes: Any) -> Generation:
        fields: dict[str, Any] = {"kind": Generation.Kind.API, "messages": HELLO, "max_tokens": 10}
        return start_generation(Order(user=user, model=model, **(fields | changes)))

    return ask


@pytest.mark.parametrize("limit", ["shared_tokens_per_day", "shared_tokens_per_month"])
def test_two_hundred_at_once_never_pass_what_is_shared(
    ask: Ask, group: Group, people: list[User], limit: str
) -> None:
    Quota.objects.create(group=group, max_concurrent=1000, **{limit: 7 * COST + 9})
    turns = itertools.cycle(people)
    answers = at_once(lambda: ask(next(turns)))
    started = [answer for answer in answers if isinstance(answer, Generation)]
    assert len(answers) == 200
    assert len(started) == 7 == Generation.objects.count()
    assert len({one.user_id for one in started}) > 1
    assert all(command_of(one).budget_tokens == one.reserved_tokens for one in started)


def test_what_one_spends_is_gone_for_all(ask: Ask, group: Group, people: list[User]) -> None:
    Quota.objects.create(group=group, shared_tokens_per_day=300, time_zone="Asia/Tokyo")
    end(ask(people[0]), prompt=190, completion=100)
    assert Spending.objects.get(subject=f"group:{group.pk}").tokens == 290
    said = r"The group research together may use 300 tokens a day; 10 are left.*\(Asia/Tokyo\)"
    with pytest.raises(LimitMet, match=said) as refused:
        ask(people[1])
    assert (refused.value.code, refused.value.is_final) == ("insufficient_quota", True)


def test_who_is_not_in_the_group_takes_nothing(
    ask: Ask, group: Group, people: list[User], person: User
) -> None:
    Quota.objects.create(group=group, shared_tokens_per_day=0)
    end(ask(person))
    assert not Spending.objects.filter(subject__startswith="group:").exists()


def test_of_two_shared_budgets_the_fuller_pays(ask: Ask, group: Group, people: list[User]) -> None:
    other = Group.objects.create(name="everyone")
    other.user_set.add(people[0])
    Quota.objects.create(group=group, shared_tokens_per_day=10)
    Quota.objects.create(group=other, shared_tokens_per_day=10_000)
    generation = ask(people[0])
    assert generation.paying_group == other
    end(generation)
    assert [one.subject for one in Spending.objects.filter(subject__startswith="group:")] == [
        f"group:{other.pk}"
    ]


def test_a_members_own_budget_holds_beside_the_shared_one(
    ask: Ask, group: Group, people: list[User]
) -> None:
    Quota.objects.create(group=group, shared_tokens_per_day=10_000, tokens_per_day=COST)
    ask(people[0])
    with pytest.raises(LimitMet, match="You may use 164"):
        ask(people[0])
    ask(people[1])


def test_a_group_that_goes_leaves_its_people_their_answers(
    ask: Ask, group: Group, people: list[User]
) -> None:
    Quota.objects.create(group=group, shared_tokens_per_day=10_000)
    generation = ask(people[0])
    group.delete()
    end(generation)
    ask(people[0])


def test_a_group_that_is_gone_pays_for_nothing_more(
    ask: Ask, group: Group, people: list[User], settings: Any
) -> None:
    """Processes know it for a moment longer: who asks then is not told of an error."""
    settings.SETTINGS_KEPT_SECONDS = 60
    Quota.objects.create(group=group, shared_tokens_per_day=10_000)
    assert ask(people[0]).paying_group_id == group.pk
    Group.objects.get(pk=group.pk).delete()
    assert ask(people[0]).paying_group_id is None


def test_only_groups_share(person: User) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(user=person, shared_tokens_per_day=1)

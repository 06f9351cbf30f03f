"""Limits hold exactly, however many ask at once, and nothing reserved is left behind."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import ApiKey, Quota, Spending, UsageRecord, User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.limit_refusals import AccessEnded, LimitMet, TooLarge
from hosting.actions.orders import Order
from hosting.actions.outcome import Answer, Outcome
from hosting.actions.refusals import Refusal
from hosting.actions.settling import close_generation
from hosting.models import Generation, HostedModel

COST = 164  # the most that HELLO and an answer of 10 tokens may take
# A limit, and how many of those that ask at once it lets in
KINDS = [
    ("max_concurrent", 7, 7),
    ("max_queued", 7, 7),
    ("requests_per_minute", 7, 7),
    ("tokens_per_minute", 7 * COST + 100, 8),  # the last one gets what is left
    ("tokens_per_day", 7 * COST + 9, 7),
    ("tokens_per_month", 7 * COST + 9, 7),
]
HELLO = ({"role": "user", "content": "Hello there"},)


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="script")[0]


@pytest.fixture
def ask(person: User, model: HostedModel) -> Callable[..., Generation]:
    def ask(**changes: Any) -> Generation:
        fields: dict[str, Any] = {"kind": Generation.Kind.API, "messages": HELLO, "max_tokens": 10}
        return start_generation(Order(user=person, model=model, **(fields | changes)))

    return ask


def end(generation: Generation, *, prompt: int = 5, cached: int = 0, completion: int = 5) -> None:
    usage = wire.Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion)
    state = Generation.State.DONE
    assert close_generation(
        generation.pk, Outcome(state=state, end="stop", answer=Answer(), usage=usage)
    )


def command_of(generation: Generation) -> wire.Generate:
    command = wire.decode(generation.request)
    assert isinstance(command, wire.Generate)
    return command


def at_once(call: Callable[[], Any], *, num_threads: int = 20, each: int = 10) -> list[Any]:
    """What each of many simultaneous calls returned or raised."""
    together = threading.Barrier(num_threads)

    def one() -> Any:
        try:
            return call()
        except Refusal as refusal:
            return refusal

    def run(_: int) -> list[Any]:
        together.wait()
        answers = [one() for _ in range(each)]
        connections.close_all()
        return answers

    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        return [answer for answers in pool.map(run, range(num_threads)) for answer in answers]


@pytest.mark.parametrize(("limit", "value", "admitted"), KINDS)
def test_two_hundred_at_once_never_pass_a_limit(
    ask: Callable[..., Generation], person: User, limit: str, value: int, admitted: int
) -> None:
    Quota.objects.create(user=person, **({"max_concurrent": 1000} | {limit: value}))
    answers = at_once(ask)
    started = [answer for answer in answers if isinstance(answer, Generation)]
    assert len(answers) == 200
    assert len(started) == admitted == Generation.objects.count()
    assert {type(one) for one in answers if not isinstance(one, Generation)} == {LimitMet}
    if limit.startswith("tokens"):
        assert sum(one.reserved_tokens for one in started) <= value
        assert all(command_of(one).budget_tokens == one.reserved_tokens for one in started)


def test_a_limit_of_a_key_counts_that_key_alone(
    ask: Callable[..., Generation], person: User, key: ApiKey
) -> None:
    Quota.objects.create(api_key=key, requests_per_minute=2, tokens_per_day=3 * COST)
    ask()
    answers = at_once(lambda: ask(api_key=key), num_threads=5, each=2)
    assert sum(isinstance(answer, Generation) for answer in answers) == 2
    ask()


def test_what_ends_makes_room_at_once(ask: Callable[..., Generation]) -> None:
    running = [ask() for _ in range(8)]
    with pytest.raises(LimitMet, match="may have 8 at once"):
        ask()
    end(running[0])
    ask()


def test_a_refusal_by_a_limit_leaves_nothing(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, requests_per_minute=0)
    with pytest.raises(LimitMet):
        ask()
    assert not Generation.objects.exists()


def test_the_window_moves(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, requests_per_minute=1)
    end(ask())
    with pytest.raises(LimitMet) as refused:
        ask()
    assert 58 < refused.value.retry_seconds <= 60
    Generation.objects.update(created_at=timezone.now() - datetime.timedelta(seconds=61))
    ask()


def test_a_budget_is_reserved_then_settled(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, tokens_per_day=300)
    first = ask()
    assert command_of(first).budget_tokens == first.reserved_tokens == COST
    end(first, prompt=20, completion=10)
    assert Spending.objects.get().tokens == 30
    assert ask().reserved_tokens == COST
    assert ask().reserved_tokens == 300 - 30 - COST


def test_a_single_request_is_told_as_one(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, max_concurrent=1)
    ask()
    with pytest.raises(LimitMet, match=r"You have 1 request running or waiting"):
        ask()


def test_a_spent_budget_is_final_and_says_when_it_begins_anew(
    ask: Callable[..., Generation], person: User
) -> None:
    Quota.objects.create(user=person, tokens_per_day=100, time_zone="Asia/Tokyo")
    end(ask(), prompt=90, completion=9)
    with pytest.raises(LimitMet, match=r"1 is left.*00:00 \(Asia/Tokyo\)") as refused:
        ask()
    assert refused.value.code == "insufficient_quota"
    assert refused.value.is_final


def test_a_budget_that_others_hold_is_worth_a_wait(
    ask: Callable[..., Generation], person: User
) -> None:
    Quota.objects.create(user=person, tokens_per_day=200)
    ask(max_tokens=None)  # may take it all
    with pytest.raises(LimitMet) as refused:
        ask()
    assert refused.value.code == "rate_limit_exceeded"
    assert not refused.value.is_final


@pytest.mark.parametrize(("counts", "charged"), [("full", 110), ("half", 60), ("none", 10)])
def test_cached_tokens_count_as_set(
    ask: Callable[..., Generation], person: User, counts: str, charged: int
) -> None:
    Quota.objects.create(user=person, cached_tokens_count=counts)
    end(ask(), prompt=100, cached=100, completion=10)
    assert UsageRecord.objects.get().charged_tokens == charged
    assert Spending.objects.get().tokens == charged


def test_what_can_never_fit_in_a_minute_is_final(
    ask: Callable[..., Generation], person: User
) -> None:
    Quota.objects.create(user=person, tokens_per_minute=50)
    with pytest.raises(TooLarge) as refused:
        ask(messages=({"role": "user", "content": "x" * 4000},))
    assert refused.value.is_final


def test_a_text_that_begins_like_an_address_of_data_is_reserved_at_its_length(
    ask: Callable[..., Generation], person: User, model: HostedModel
) -> None:
    HostedModel.objects.update(context_limit_tokens=131_072)
    model.refresh_from_db()
    Quota.objects.create(user=person, tokens_per_day=10_000_000)
    text = "data: a line of a log\n" * 1000
    asked = ask(messages=({"role": "user", "content": text},))
    assert asked.reserved_tokens > len(text)
    assert command_of(asked).budget_tokens == asked.reserved_tokens


def test_titles_count_to_nobody_and_appear(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, requests_per_minute=0, tokens_per_day=0)
    end(ask(kind=Generation.Kind.TITLE))
    line = UsageRecord.objects.get()
    assert (line.kind, line.charged_tokens, line.prompt_tokens) == ("internal", 0, 5)
    assert not Spending.objects.exists()


def test_a_model_that_is_not_allowed_is_forbidden(
    ask: Callable[..., Generation], person: User
) -> None:
    Quota.objects.create(user=person, allowed_models=["other"])
    with pytest.raises(Refusal) as refused:
        ask()
    assert refused.value.status == 403


def test_caps_weight_and_class_reach_the_engine(
    ask: Callable[..., Generation], person: User
) -> None:
    Quota.objects.create(
        user=person, max_output_tokens=4, max_context_tokens=64, weight=2, highest_class="batch"
    )
    command = command_of(ask())
    assert (command.max_tokens, command.max_context_tokens, command.weight) == (4, 64, 2)
    assert command.priority == wire.Priority.BATCH
    assert command.budget_tokens is None


def test_a_changed_limit_holds_for_the_next_request(
    ask: Callable[..., Generation], person: User
) -> None:
    quota = Quota.objects.create(user=person, max_output_tokens=4)
    ask()
    quota.max_output_tokens = 3
    quota.save()
    assert command_of(ask()).max_tokens == 3


def test_nothing_starts_after_access_has_ended(
    ask: Callable[..., Generation], person: User, key: ApiKey
) -> None:
    ApiKey.objects.update(revoked_at=timezone.now())
    with pytest.raises(AccessEnded):
        ask(api_key=key)
    User.objects.update(is_active=False)
    with pytest.raises(AccessEnded):
        ask()


@pytest.mark.parametrize(("limit", "value", "admitted"), KINDS)
def test_two_hundred_at_once_never_pass_a_key(
    ask: Callable[..., Generation],
    person: User,
    key: ApiKey,
    limit: str,
    value: int,
    admitted: int,
) -> None:
    Quota.objects.create(user=person, max_concurrent=1000)
    Quota.objects.create(api_key=key, **{limit: value})
    answers = at_once(lambda: ask(api_key=key))
    assert sum(isinstance(answer, Generation) for answer in answers) == admitted


def test_what_has_begun_waits_no_longer(ask: Callable[..., Generation], person: User) -> None:
    Quota.objects.create(user=person, max_queued=1)
    first = ask()
    with pytest.raises(LimitMet, match=r"1 request waiting.*Wait until one has begun"):
        ask()
    Generation.objects.filter(pk=first.pk).update(state=Generation.State.RUNNING)
    ask()

"""Limits hold for vectors too: a call with many texts costs more than one context."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import Quota, User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.limit_refusals import LimitMet
from hosting.actions.vector_orders import EmbedOrder, RerankOrder
from hosting.models import Generation, HostedModel
from tests.hosting.test_admission import at_once

TEXTS = ("word " * 60,) * 40  # 12,000 bytes, so about 3,000 tokens and never more than 12,000
CONTEXT = 512
MOST = 40 * (300 + 64) + 64


@pytest.fixture
def ask(person: User) -> Any:
    model = HostedModel.objects.create(
        name="vectors", path="/models/vectors", kind="embed", context_limit_tokens=CONTEXT
    )

    def ask(**changes: Any) -> Generation:
        fields: dict[str, Any] = {"user": person, "kind": "api", "model": model, "texts": TEXTS}
        return start_generation(EmbedOrder(**(fields | changes)))

    return ask


def command_of(generation: Generation) -> wire.Embed | wire.Rerank:
    command = wire.decode(generation.request)
    assert isinstance(command, wire.Embed | wire.Rerank)
    return command


@pytest.mark.parametrize("limit", ["tokens_per_minute", "tokens_per_day", "tokens_per_month"])
def test_many_at_once_never_pass_a_limit(ask: Any, person: User, limit: str) -> None:
    Quota.objects.create(user=person, max_concurrent=1000, **{limit: 3 * MOST + 100})
    answers = at_once(ask, num_threads=10, each=2)
    started = [one for one in answers if isinstance(one, Generation)]
    assert len(started) == 3
    assert {type(one) for one in answers if one not in started} == {LimitMet}
    for one in started:
        assert command_of(one).budget_tokens == one.reserved_tokens == MOST


def test_what_is_left_is_all_that_may_be_spent(ask: Any, person: User) -> None:
    """Intake counts, and refuses more."""
    Quota.objects.create(user=person, tokens_per_day=5_000)
    assert command_of(ask()).budget_tokens == 5_000
    with pytest.raises(LimitMet):
        ask()


def test_each_text_is_as_long_as_the_context_at_most(ask: Any, person: User) -> None:
    Quota.objects.create(user=person, tokens_per_day=10_000_000, max_context_tokens=100)
    generation = ask()
    assert generation.reserved_tokens == 40 * 100
    assert command_of(generation).max_context_tokens == 100


def test_a_query_counts_once_for_each_document(person: User, model: HostedModel) -> None:
    Quota.objects.create(user=person, tokens_per_day=10_000_000)
    generation = start_generation(
        RerankOrder(
            user=person, kind=Generation.Kind.API, model=model, query="q" * 100,
            documents=("d" * 10,) * 5,
        )
    )  # fmt: skip
    assert generation.reserved_tokens >= 5 * (110 + 100)  # a reranker's question has words too
    assert command_of(generation).budget_tokens == generation.reserved_tokens


def test_without_limits_nothing_is_held_to_one(ask: Any) -> None:
    command = command_of(ask())
    assert (command.budget_tokens, command.max_context_tokens) == (None, None)

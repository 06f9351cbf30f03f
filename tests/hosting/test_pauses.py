"""After a sleep, an outage or a clock that was set: who follows gets the time to say so."""

from __future__ import annotations

import datetime

import pytest
from django.utils import timezone

from accounts.models import User
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.engine_client import TerminalFeed
from hosting.management.commands.consume_ledger import LedgerConsumer
from hosting.models import Generation, HostedModel, IdempotencyKey
from tests.engine.transport.rig import Rig

PROMPT = ({"role": "user", "content": "Hi"},)
HOUR = 3600.0


class Ledger(LedgerConsumer):
    """Each turn reconciles; the wall clock is set by hand."""

    def __init__(self, redis_url: str) -> None:
        self.now = timezone.now().timestamp()
        super().__init__(TerminalFeed(redis_url), wall_clock=lambda: self.now)
        self.turn_after(0.0)

    def turn_after(self, seconds: float) -> None:
        self.now += seconds
        self._reconcile_at = 0.0
        self.turn()


@pytest.fixture
def ledger(transactional_db: None, rig: Rig, redis_url: str) -> Ledger:
    return Ledger(redis_url)


@pytest.fixture
def followed(ledger: Ledger, person: User, model: HostedModel) -> Generation:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    generation = start_generation(order)
    IdempotencyKey.objects.create(
        user=person, key="k1", generation_ids=[str(generation.pk)], followed_until=timezone.now()
    )
    return generation


def pass_time(seconds: float) -> None:
    """Since somebody last said that they follow."""
    until = timezone.now() + datetime.timedelta(seconds=60.0 - seconds)
    IdempotencyKey.objects.update(followed_until=until)


def is_cancelled(generation: Generation) -> bool:
    generation.refresh_from_db()
    return generation.is_cancel_requested


@pytest.mark.parametrize("pause", [HOUR, -HOUR])
def test_after_a_pause_nobody_is_taken_for_gone(
    ledger: Ledger, followed: Generation, pause: float
) -> None:
    pass_time(HOUR)
    ledger.turn_after(pause)
    assert not is_cancelled(followed)
    pass_time(61.0)
    ledger.turn_after(2.0)
    assert is_cancelled(followed)


def test_a_clock_that_was_set_back_keeps_nobody_for_an_hour(
    ledger: Ledger, followed: Generation
) -> None:
    pass_time(-HOUR)
    ledger.turn_after(-HOUR)
    left = IdempotencyKey.objects.get().followed_until - timezone.now()
    assert left <= datetime.timedelta(seconds=60)


def test_who_is_away_without_a_pause_is_given_up(ledger: Ledger, followed: Generation) -> None:
    pass_time(61.0)
    ledger.turn_after(2.0)
    assert is_cancelled(followed)

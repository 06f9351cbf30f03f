"""`manage.py consume_ledger`: the loop that settles and reconciles."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from django.db import OperationalError

from accounts.models import UsageRecord, User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.actions.settling import settle_generations
from hosting.engine_client import EngineUnavailable, TerminalFeed
from hosting.management.commands import consume_ledger
from hosting.models import Generation, HostedModel
from tests.engine.transport.rig import Rig, emit
from tests.hosting.scripted_engine import finished

PROMPT = ({"role": "user", "content": "Hi"},)


@pytest.fixture
def consumer(transactional_db: None, rig: Rig, redis_url: str) -> consume_ledger.LedgerConsumer:
    made = consume_ledger.LedgerConsumer(TerminalFeed(redis_url))
    made.turn()  # the first turn makes the consumer group
    return made


@pytest.fixture
def ended(rig: Rig, person: User, model: HostedModel) -> Generation:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    generation = start_generation(order)
    rig.admit_all()
    engine = rig.engine()
    engine.pull({"demo": 1})
    emit(engine, str(generation.pk), finished())
    return generation


def test_ended_requests_are_settled_and_acknowledged(
    rig: Rig, consumer: consume_ledger.LedgerConsumer, ended: Generation
) -> None:
    consumer.turn()
    ended.refresh_from_db()
    assert ended.state == "done"
    assert rig.redis.xlen(wire.Keys.TERMINAL) == 0


def test_one_that_cannot_be_stored_holds_up_no_other(
    rig: Rig,
    consumer: consume_ledger.LedgerConsumer,
    ended: Generation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig.redis.xadd(wire.Keys.TERMINAL, {"id": "broken"})
    rig.redis.xadd("hearth:events:broken", {"e": wire.encode(finished())}, id="1-0")
    consumer.turn()
    assert UsageRecord.objects.count() == 1
    assert "not settled" in caplog.text
    assert rig.redis.xlen(wire.Keys.TERMINAL) == 1


class Away:
    """A feed whose Redis is away for these reasons, look by look; then it ends the test."""

    def __init__(self, *reasons: str) -> None:
        self.num_reads = 0
        self.consumer: consume_ledger.LedgerConsumer | None = None
        self._reasons = reasons

    def read(self, block_ms: int) -> list[tuple[str, str]]:
        self.num_reads += 1
        if self.num_reads <= len(self._reasons):
            raise EngineUnavailable(self._reasons[self.num_reads - 1])
        assert self.consumer is not None
        self.consumer.stop()
        return []

    def begin(self) -> None:
        pass


def test_it_outlives_redis(transactional_db: None) -> None:
    feed: Any = Away("away")
    feed.consumer = consume_ledger.LedgerConsumer(feed, pause_seconds=0.0)
    feed.consumer.run()
    assert feed.num_reads == 2


def test_what_is_away_is_told_once_for_each_reason(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    feed: Any = Away("away", "away", "full", "full")
    feed.consumer = consume_ledger.LedgerConsumer(feed, pause_seconds=0.0)
    feed.consumer.run()
    assert caplog.messages == ["ledger waits: away", "ledger waits: full"]


def test_what_stays_away_is_told_again_later(
    transactional_db: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_ledger, "_TELL_SECONDS", 0.0)
    feed: Any = Away("away", "away")
    feed.consumer = consume_ledger.LedgerConsumer(feed, pause_seconds=0.0)
    feed.consumer.run()
    assert caplog.messages == ["ledger waits: away"] * 2


def test_what_a_database_away_kept_open_is_settled_as_soon_as_it_is_back(
    consumer: consume_ledger.LedgerConsumer, ended: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = iter((True, False))

    def settle(request_ids: list[str]) -> int:
        if next(is_away):
            raise OperationalError("the database is away")
        consumer.stop()
        return settle_generations(request_ids)

    monkeypatch.setattr(consume_ledger, "settle_generations", settle)
    monkeypatch.setattr(consumer, "_pause_seconds", 0.0)
    consumer.run()
    ended.refresh_from_db()
    assert ended.state == "done"


class Ending:
    """A feed of one end at every look; the fourth look ends the test."""

    def __init__(self) -> None:
        self.looks: list[float] = []
        self.consumer: consume_ledger.LedgerConsumer | None = None

    def read(self, block_ms: int) -> list[tuple[str, str]]:
        self.looks.append(time.monotonic())
        assert self.consumer is not None
        if len(self.looks) == 4:
            self.consumer.stop()
        return [("1-0", str(uuid.uuid4()))]

    def ack(self, entry_ids: list[str]) -> None:
        pass


def test_what_ends_within_a_moment_is_settled_together(transactional_db: None, rig: Rig) -> None:
    """Each by itself took four milliseconds of a processor that others wait for."""
    feed: Any = Ending()
    began = time.monotonic()
    feed.consumer = consume_ledger.LedgerConsumer(feed)
    feed.consumer.run()
    assert feed.looks[0] - began < 0.09
    assert feed.looks[-1] - feed.looks[0] >= 0.29


def test_it_publishes_the_models_from_its_first_turn_on(
    rig: Rig, consumer: consume_ledger.LedgerConsumer
) -> None:
    assert rig.client.published_models()

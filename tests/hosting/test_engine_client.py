"""The sync client and the terminal feed, against a real Redis."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from engine import wire
from hosting.engine_client import (
    EngineClient,
    EngineUnavailable,
    TerminalFeed,
    WaitingRequest,
    connection,
    terminal_feed,
)
from hosting.engine_client.terminal_feed import MAX_IDS
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished, make_generate, make_status
from tests.redis_line import RedisLine
from tests.redis_process import RedisProcess


@pytest.fixture
def rig(redis_url: str) -> Rig:
    return Rig(redis_url)


@pytest.fixture
def away() -> EngineClient:
    return EngineClient("unix:///nowhere/redis.sock")


def end(rig: Rig, *request_ids: str) -> None:
    rig.queue(*request_ids)
    engine = rig.engine()
    for request_id in pull_ids(engine, len(request_ids)):
        emit(engine, request_id, make_delta(1), make_finished())


def test_events_are_read_from_any_place(rig: Rig) -> None:
    end(rig, "a")

    assert [seq for seq, _ in rig.client.read_events("a")] == [0, 1, 2]
    assert rig.client.read_events("a", 1) == [(2, make_finished())]
    assert rig.client.read_events("a", 2) == []
    assert rig.client.read_events("never seen") == []


def test_a_request_is_known_from_its_submission_on(rig: Rig) -> None:
    assert not rig.client.has_request("a")
    rig.submit("a")
    assert rig.client.has_request("a")


def test_models_are_published_until_redis_loses_them(rig: Rig) -> None:
    assert not rig.client.published_models()
    rig.client.publish_models(())
    assert rig.client.published_models()
    rig.redis.flushall()
    assert not rig.client.published_models()


def test_only_living_engines_are_listed(rig: Rig) -> None:
    status = make_status("engine-1")
    rig.redis.sadd(wire.Keys.ENGINES, "engine-1", "engine-2")
    rig.redis.set(wire.Keys.engine("engine-1"), wire.encode(status))

    assert rig.client.engines() == [status]


def test_what_waits_is_listed_in_order_with_its_tenant(rig: Rig) -> None:
    rig.queue("a", tenant="user:a")
    rig.queue("b", tenant="user:b", priority=wire.Priority.INTERACTIVE)
    waiting = rig.client.waiting()

    assert [(one.request_id, one.tenant, one.position) for one in waiting] == [
        ("b", "user:b", 1),
        ("a", "user:a", 2),
    ]
    assert isinstance(waiting[0], WaitingRequest)
    assert 0 <= waiting[0].waiting_seconds < 60


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.ping(),
        lambda client: client.submit(make_generate("a")),
        lambda client: client.cancel("a"),
        lambda client: client.engines(),
        lambda client: client.waiting(),
        lambda client: client.publish_models(()),
        lambda client: client.read_events("a"),
        lambda client: client.has_request("a"),
        lambda client: client.load_model("demo"),
    ],
)
def test_without_redis_every_call_says_so_quickly(
    away: EngineClient, call: Callable[[EngineClient], object]
) -> None:
    began = time.monotonic()
    with pytest.raises(EngineUnavailable):
        call(away)
    assert time.monotonic() - began < 2


def test_the_client_survives_a_restart_of_redis(mortal_redis: RedisProcess) -> None:
    client = EngineClient(mortal_redis.url)
    client.submit(make_generate("a"))
    mortal_redis.kill()
    with pytest.raises(EngineUnavailable):
        client.ping()
    mortal_redis.start()

    client.ping()
    client.submit(make_generate("b"))
    assert client.has_request("b")


def test_each_ended_request_is_handed_out_once_until_acknowledged(rig: Rig) -> None:
    feed = TerminalFeed(rig.url)
    assert feed.read(10) == []
    end(rig, "a", "b")
    entries = feed.read(1000)

    assert [request_id for _, request_id in entries] == ["a", "b"]
    assert feed.read(10) == []
    feed.ack([entry_id for entry_id, _ in entries])
    assert rig.ended() == []


def test_what_ended_before_the_feed_began_is_not_missed(rig: Rig) -> None:
    end(rig, "a")
    feed = TerminalFeed(rig.url)
    feed.read(10)

    assert [request_id for _, request_id in feed.read(1000)] == ["a"]


def test_a_new_feed_begins_with_what_others_left_and_hands_it_out_once(rig: Rig) -> None:
    end(rig, *(f"request-{number}" for number in range(MAX_IDS + 6)))  # more than one claim
    dead = TerminalFeed(rig.url)
    dead.read(10)
    left = dead.read(1000) + dead.read(1000)
    assert len(left) == MAX_IDS + 6
    feed = TerminalFeed(rig.url)

    assert feed.read(10) + feed.read(10) == left
    assert feed.read(10) == []


def test_a_feed_that_begins_again_hands_out_what_was_not_acknowledged(rig: Rig) -> None:
    feed = TerminalFeed(rig.url)
    feed.read(10)
    end(rig, "a")
    entries = feed.read(1000)
    assert feed.read(10) == []
    feed.begin()

    assert feed.read(10) == entries


def test_what_a_consumer_holds_for_long_is_handed_to_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_feed, "RECLAIM_SECONDS", 0.0)
    dead, feed = TerminalFeed(rig.url), TerminalFeed(rig.url)
    dead.read(10)
    assert feed.read(10) == []
    end(rig, "a")
    ((entry_id, _),) = dead.read(1000)
    assert feed.read(10) == []
    # As if it had been idle for a minute
    rig.redis.xclaim(
        wire.Keys.TERMINAL, wire.Keys.TERMINAL_GROUP, "dead", 0, [entry_id], idle=60_000
    )

    assert feed.read(10) == [(entry_id, "a")]


_DIES_WITH_WHAT_IT_READ = """
import sys
from hosting.engine_client.terminal_feed import TerminalFeed
feed = TerminalFeed(sys.argv[1])
feed.read(10)
assert len(feed.read(1000)) == 1
"""


def test_a_ledger_that_is_started_anew_leaves_nothing_in_redis_and_loses_nothing(rig: Rig) -> None:
    for request_id in ("a", "b"):
        end(rig, request_id)
        ledger = [sys.executable, "-c", _DIES_WITH_WHAT_IT_READ, rig.url]
        subprocess.run(ledger, check=True, timeout=60)
    assert len(rig.redis.xinfo_consumers(wire.Keys.TERMINAL, wire.Keys.TERMINAL_GROUP)) == 1
    assert [request_id for _, request_id in TerminalFeed(rig.url).read(10)] == ["a", "b"]


def test_the_feed_goes_on_after_redis_lost_its_group(rig: Rig) -> None:
    feed = TerminalFeed(rig.url)
    feed.read(10)
    rig.redis.flushall()
    end(rig, "a")
    feed.read(10)

    assert [request_id for _, request_id in feed.read(1000)] == ["a"]


def test_a_feed_whose_line_fell_silent_reads_on_another(
    redis_line: RedisLine, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)
    feed = TerminalFeed(redis_line.url)
    feed.read(10)
    redis_line.fall_silent()
    end(rig, "a")
    assert [request_id for _, request_id in feed.read(1000)] == ["a"]

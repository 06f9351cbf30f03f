"""Redis forgets: wholly, or the last second, with and without its process dying."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from engine import wire
from engine.core.delivery import Dropped
from engine.transport import RedisAway
from engine.transport.exchange import MAX_EVENTS_PER_CALL, Exchange
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished
from tests.redis_process import RedisProcess

MORE_THAN_LUA_UNPACKS = 10_000


@pytest.fixture
def engine(rig: Rig) -> Exchange:
    """An engine in the middle of request `a`."""
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", wire.Started(cached_tokens=0), make_delta(1), make_delta(2))
    return engine


def test_all_events_come_back_with_their_seqs(rig: Rig, engine: Exchange) -> None:
    before = rig.events("a")
    rig.redis.flushall()
    emit(engine, "a", make_delta(3))

    assert rig.events("a") == [*before, make_delta(3)]
    emit(engine, "a", make_finished())
    assert rig.ended() == ["a"]


def test_the_events_of_a_long_answer_come_back(rig: Rig, engine: Exchange) -> None:
    emit(engine, "a", *(make_delta(3 + i) for i in range(MORE_THAN_LUA_UNPACKS)))
    before = rig.events("a")
    rig.redis.flushall()
    engine.verify()

    assert rig.events("a") == before


def test_very_many_that_ended_a_moment_ago_are_told_of(rig: Rig, engine: Exchange) -> None:
    ended = (str(i) for i in range(MORE_THAN_LUA_UNPACKS))

    assert rig.scripts("release", "unheld", "engine-1", "", "", "a", *ended) == []
    assert rig.scripts("release", "unheld", "engine-1", "", "", *ended) == ["a"]


def test_a_restored_request_is_leased_and_whole(rig: Rig, engine: Exchange) -> None:
    rig.redis.flushall()
    assert engine.verify() == []
    assert pull_ids(rig.engine("engine-2"), 3) == []

    (delivery,) = rig.engine("engine-1").pull({"demo": 1})
    assert delivery.delivered_token_ids == (1, 2)
    assert delivery.work.prompt_token_ids == (0, 1, 2, 3)
    assert delivery.attempt == 2


def test_an_end_that_redis_forgot_is_told_again(rig: Rig, engine: Exchange) -> None:
    emit(engine, "a", make_finished())
    rig.redis.flushall()
    engine.verify()

    assert rig.events("a")[-1] == make_finished()
    assert rig.ended() == ["a"]


@pytest.mark.parametrize("progress", ["submitted", "queued"])
def test_the_running_one_wins_over_the_one_submitted_again(
    rig: Rig, engine: Exchange, progress: str
) -> None:
    before = rig.events("a")
    rig.redis.flushall()
    rig.submit("a")
    if progress == "queued":
        rig.admit_all()
    engine.verify()

    assert rig.events("a") == before
    assert rig.admit_all() == ([] if progress == "queued" else ["gone"])
    assert pull_ids(rig.engine("engine-2"), 2) == []


def test_the_one_taken_by_another_engine_meanwhile_wins(rig: Rig, engine: Exchange) -> None:
    rig.redis.flushall()
    rig.queue("a")
    assert pull_ids(rig.engine("engine-2")) == ["a"]

    assert engine.verify() == [Dropped(request_id="a")]
    assert len(rig.events("a")) == 1


def test_a_lost_one_is_told_of_also_where_redis_fails_behind_it(rig: Rig, engine: Exchange) -> None:
    rig.queue("b")
    pull_ids(engine)
    rig.redis.zadd(wire.Keys.LEASES, {"a": 1})
    rig.engine("engine-2").release_expired()
    engine.add([("a", make_delta(3))])
    engine.add(("b", make_delta(i)) for i in range(MAX_EVENTS_PER_CALL))
    with full_memory(rig), pytest.raises(RedisAway):
        engine.send()

    assert engine.verify() == [Dropped(request_id="a")]


def test_a_cancelled_one_stays_cancelled(rig: Rig, engine: Exchange) -> None:
    rig.redis.flushall()
    rig.submit("a")
    rig.client.cancel("a")

    assert engine.verify() == [Dropped(request_id="a")]
    assert rig.ended() == ["a"]


@pytest.mark.parametrize("lost_events", [1, 2, 3])
def test_the_last_second_s_events_are_told_again(
    rig: Rig, engine: Exchange, lost_events: int
) -> None:
    before = rig.events("a")
    rewind(rig, "a", lost_events)
    engine.verify()

    assert rig.events("a") == before


def test_a_pull_that_redis_forgot_is_asserted(rig: Rig, engine: Exchange) -> None:
    before = rig.events("a")
    rig.redis.flushall()
    rig.queue("a")
    engine.verify()

    assert rig.events("a") == before
    assert rig.client.waiting() == []


def test_a_killed_redis_keeps_the_queue_and_the_leases(mortal_redis: RedisProcess) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("a", "b", "c")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", make_delta(1))
    mortal_redis.kill()
    mortal_redis.start()
    rig = Rig(mortal_redis.url)
    engine = revived(engine)

    emit(engine, "a", make_delta(2), make_finished())
    assert rig.events("a")[1:] == [make_delta(1), make_delta(2), make_finished()]
    assert pull_ids(engine, 3) == ["b", "c"]


def test_a_redis_that_restarts_empty_is_told_everything(mortal_redis: RedisProcess) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", make_delta(1))
    before = rig.events("a")
    mortal_redis.kill()
    mortal_redis.forget()
    mortal_redis.start()
    engine = revived(engine)

    assert rig.events("a") == before


def revived(engine: Exchange) -> Exchange:
    """The engine after its connection broke: the first call on a dead connection fails."""
    with contextlib.suppress(RedisAway):
        engine.verify()
    engine.verify()
    return engine


def rewind(rig: Rig, request_id: str, num_events: int) -> None:
    """As if the last events had not reached Redis's disk."""
    key = wire.Keys.events(request_id)
    last = rig.redis.xrevrange(key, count=num_events)
    kept = rig.redis.xrange(key)[: -len(last)]
    rig.redis.delete(key)
    for entry_id, fields in kept:
        rig.redis.xadd(key, fields, id=entry_id)
    rig.redis.hincrby(wire.Keys.request(request_id), "seq", -len(last))


@contextlib.contextmanager
def full_memory(rig: Rig) -> Iterator[None]:
    """Redis reads then, and writes nothing."""
    rig.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        rig.redis.config_set("maxmemory", 0)

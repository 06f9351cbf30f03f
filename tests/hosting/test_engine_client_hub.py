"""The hub: many followers, late ones, slow ones, and a Redis that comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from engine import wire
from engine.transport import RedisAway
from engine.transport.exchange import Exchange
from hosting.engine_client import Hub, StreamLost, reader
from hosting.engine_client.connection import Connection
from hosting.engine_client.follower import MAX_QUEUED
from hosting.engine_client.hub import RETRY_SECONDS
from hosting.engine_client.reader import Reader
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished
from tests.redis_line import RedisLine
from tests.redis_process import RedisProcess

Numbered = tuple[int, wire.Event]


@pytest.fixture
def rig(redis_url: str) -> Rig:
    return Rig(redis_url)


@pytest.fixture
def engine(rig: Rig) -> Exchange:
    """An engine that has taken request `a`."""
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    return engine


@pytest.fixture
def hub(rig: Rig) -> Hub:
    return Hub(rig.url)


async def collect(events: AsyncIterator[Numbered]) -> list[Numbered]:
    return [one async for one in events]


async def following(hub: Hub, request_id: str = "a", after: int = -1) -> asyncio.Task[list]:
    """A follower in a task of its own, already joined to what is there."""
    task = asyncio.create_task(collect(hub.follow(request_id, after)))
    for _ in range(20):
        await asyncio.sleep(0.002)
    return task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def in_thread(engine: Exchange, *events: wire.Event) -> None:
    await asyncio.to_thread(emit, engine, "a", *events)


def verify_after_restart(engine: Exchange) -> None:
    with contextlib.suppress(RedisAway):  # the first call finds the connection cut
        engine.verify()
    engine.verify()


def answer(num_tokens: int) -> list[wire.Event]:
    return [*(make_delta(i) for i in range(num_tokens)), make_finished()]


async def test_a_follower_gets_every_event_once_and_ends(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    task = await following(hub)
    for event in answer(50):
        await in_thread(engine, event)

    assert await task == list(enumerate(rig.events("a")))


async def test_a_second_follower_takes_nothing_from_the_first(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    first = await following(hub)
    await in_thread(engine, *answer(20)[:10])
    second = asyncio.create_task(collect(hub.follow("a")))
    await in_thread(engine, *answer(20)[10:])

    expected = list(enumerate(rig.events("a")))
    assert await first == expected
    assert await second == expected


async def test_a_late_follower_is_told_all_from_the_start(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    emit(engine, "a", *answer(600))

    assert await collect(hub.follow("a")) == list(enumerate(rig.events("a")))


async def test_a_follower_may_resume_from_every_place(rig: Rig, engine: Exchange, hub: Hub) -> None:
    emit(engine, "a", *answer(5))
    everything = list(enumerate(rig.events("a")))

    for after in range(-1, len(everything)):
        assert await collect(hub.follow("a", after)) == everything[after + 1 :]


async def test_followers_of_a_running_request_may_resume_from_every_place(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    emit(engine, "a", *answer(10)[:5])
    tasks = [await following(hub, "a", after) for after in range(-1, 6)]
    await in_thread(engine, *answer(10)[5:])

    everything = list(enumerate(rig.events("a")))
    for after, task in enumerate(tasks, start=-1):
        assert await task == everything[after + 1 :]


async def test_a_slow_follower_slows_nobody_and_misses_nothing(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    slow = hub.follow("a")
    received = [await anext(slow)]
    reading_slowly = asyncio.create_task(anext(slow))
    quick = await following(hub)
    for event in answer(2 * MAX_QUEUED):
        engine.add([("a", event)])
    await asyncio.to_thread(engine.send)

    expected = list(enumerate(rig.events("a")))
    assert await quick == expected
    received.append(await reading_slowly)
    received += await collect(slow)
    assert received == expected


async def test_an_unknown_request_has_no_stream(hub: Hub) -> None:
    with pytest.raises(StreamLost):
        await collect(hub.follow("never seen"))


async def test_a_request_may_be_followed_before_intake_saw_it(rig: Rig, hub: Hub) -> None:
    rig.submit("a")
    task = await following(hub)
    await asyncio.to_thread(rig.client.cancel, "a")

    ((seq, event),) = await task
    assert seq == 0
    assert isinstance(event, wire.Finished)


async def test_a_follower_that_leaves_closes_what_was_opened_for_it(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    events = hub.follow("a")
    await anext(events)
    leaving = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])

    assert not [task for task in asyncio.all_tasks() if task.get_name() == "hub-reader"]
    emit(engine, "a", *answer(2))
    assert len(await collect(hub.follow("a"))) == 4


async def test_a_follower_outlives_a_restart_of_redis(mortal_redis: RedisProcess) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", *answer(6)[:3])
    task = await following(Hub(rig.url))
    await asyncio.to_thread(mortal_redis.kill)
    mortal_redis.forget()
    await asyncio.to_thread(mortal_redis.start)
    rig = Rig(mortal_redis.url)
    await asyncio.to_thread(verify_after_restart, engine)
    await in_thread(engine, *answer(6)[3:])

    assert await task == list(enumerate(rig.events("a")))


async def test_a_redis_that_goes_while_a_follower_joins_takes_no_event_along(
    mortal_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("a", "b")
    engine = rig.engine()
    pull_ids(engine, 2)
    emit(engine, "a", *answer(6)[:3])
    hub = Hub(rig.url)
    other = await following(hub, "b")
    wake = Reader.wake

    async def kill_and_wake(reader: Reader, connection: Connection) -> None:
        mortal_redis.kill()
        await wake(reader, connection)

    monkeypatch.setattr(Reader, "wake", kill_and_wake)
    task = await following(hub)
    monkeypatch.undo()
    await asyncio.to_thread(mortal_redis.start)
    await asyncio.to_thread(verify_after_restart, engine)
    await in_thread(engine, *answer(6)[3:])
    await asyncio.to_thread(emit, engine, "b", *answer(1))

    assert await task == list(enumerate(rig.events("a")))
    assert await other == list(enumerate(rig.events("b")))


async def test_a_request_submitted_again_before_its_engine_says_it_is_the_same_stream(
    mortal_redis: RedisProcess,
) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", *answer(6)[:3])
    task = await following(Hub(rig.url))
    await asyncio.to_thread(mortal_redis.kill)
    mortal_redis.forget()
    await asyncio.to_thread(mortal_redis.start)
    rig = Rig(mortal_redis.url)
    rig.queue("a")
    await asyncio.sleep(2 * RETRY_SECONDS)
    await asyncio.to_thread(verify_after_restart, engine)
    await in_thread(engine, *answer(6)[3:])

    assert await task == list(enumerate(rig.events("a")))


async def test_a_request_submitted_again_after_a_loss_is_another_stream(
    mortal_redis: RedisProcess,
) -> None:
    rig = Rig(mortal_redis.url)
    rig.queue("first", "a")
    task = await following(Hub(rig.url))
    await asyncio.to_thread(mortal_redis.kill)
    mortal_redis.forget()
    await asyncio.to_thread(mortal_redis.start)
    rig = Rig(mortal_redis.url)
    rig.submit("a")

    with pytest.raises(StreamLost):
        await task


async def begun_anew(rig: Rig) -> Exchange:
    """Redis loses the request while all stay connected; another engine has it since."""
    await asyncio.to_thread(rig.redis.flushall)
    await asyncio.to_thread(rig.queue, "a")
    next_engine = await asyncio.to_thread(rig.engine, "engine-2")
    await asyncio.to_thread(pull_ids, next_engine)
    return next_engine


async def test_what_follows_a_loss_that_no_connection_noticed_is_not_told_as_the_same_answer(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    emit(engine, "a", *answer(3)[:3])
    task = await following(hub)
    next_engine = await begun_anew(rig)
    await in_thread(next_engine, *answer(9))

    with pytest.raises(StreamLost):
        await task
    assert await collect(hub.follow("a")) == list(enumerate(rig.events("a")))


async def test_a_follower_outlives_a_loss_that_no_connection_noticed(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    emit(engine, "a", *answer(6)[:3])
    task = await following(hub)
    await asyncio.to_thread(rig.redis.flushall)
    await asyncio.to_thread(rig.queue, "a")
    await asyncio.to_thread(engine.verify)
    await in_thread(engine, *answer(6)[3:])

    assert await task == list(enumerate(rig.events("a")))


async def test_who_follows_before_and_who_after_a_loss_have_an_answer_each(
    rig: Rig, engine: Exchange, hub: Hub
) -> None:
    emit(engine, "a", *answer(3)[:3])
    before = await following(hub)
    next_engine = await begun_anew(rig)
    await in_thread(next_engine, *answer(9)[:3])
    after = await following(hub)
    await in_thread(next_engine, *answer(9)[3:])

    with pytest.raises(StreamLost):
        await before
    assert await after == list(enumerate(rig.events("a")))


async def test_a_follower_outlives_a_line_that_fell_silent(
    rig: Rig,
    engine: Exchange,
    redis_line: RedisLine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reader, "BLOCK_MS", 100)
    for module in (reader, sys.modules[Hub.__module__]):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    task = await following(Hub(redis_line.url))
    await until(lambda: rig.redis.info("clients")["blocked_clients"] == 1)
    redis_line.fall_silent()
    await until(lambda: "events are not read, Redis is away: it does not answer" in caplog.messages)
    await in_thread(engine, *answer(3))

    assert await task == list(enumerate(rig.events("a")))

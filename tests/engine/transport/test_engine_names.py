"""What Redis has under an engine's name goes when the name has not been seen for a week."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine import wire
from engine.core.lives import KEPT_SECONDS
from engine.transport.heartbeat import Heartbeat
from engine.transport.inbox import Inbox
from engine.transport.listener import Listener
from tests.engine.transport.rig import Rig
from tests.makers import make_status
from tests.waiting import wait_until

LIFE, FORGOT = wire.Keys.engine_life("pod"), wire.Keys.engine_forgot("pod")


@pytest.fixture
def closing() -> Iterator[threading.Event]:
    """Ends the threads that a test has started."""
    before = set(threading.enumerate())
    closing = threading.Event()
    yield closing
    closing.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()


def is_kept_for_a_week(rig: Rig, key: str) -> bool:
    return bool(KEPT_SECONDS - 60 < rig.redis.ttl(key) <= KEPT_SECONDS)


def test_what_an_engine_has_forgotten_is_known_for_a_week(
    rig: Rig, closing: threading.Event
) -> None:
    rig.client.publish_models(())
    rig.client.forget_tenant("one")
    inbox = Inbox()
    listener = Listener(
        Rig(rig.url).redis,
        engine_name="pod",
        inbox=inbox,
        on_work=lambda: None,
        is_clearing=lambda: False,
        closing=closing,
    )
    threading.Thread(target=listener.run).start()
    wait_until(lambda: not inbox.take(0.0) and is_kept_for_a_week(rig, FORGOT))


def test_while_an_engine_lives_nothing_of_its_name_goes(rig: Rig, closing: threading.Event) -> None:
    rig.engine("pod")
    rig.redis.set(FORGOT, "1-0", ex=10)
    heartbeat = Heartbeat(
        rig.url,
        engine_name="pod",
        status=lambda: make_status("pod", beat_at=0.0),
        on_doubt=lambda: None,
        closing=closing,
    )
    threading.Thread(target=heartbeat.run).start()
    wait_until(lambda: is_kept_for_a_week(rig, FORGOT) and is_kept_for_a_week(rig, LIFE))


def test_a_new_engine_takes_names_off_the_list_that_were_long_not_seen(rig: Rig) -> None:
    rig.engine("lately")
    rig.redis.set(
        wire.Keys.engine("older"), "a beat, of a Redis that has lost what it knew of lives"
    )
    rig.redis.sadd(wire.Keys.ENGINES, "lately", "older", "long-gone")
    rig.engine("pod")
    assert rig.redis.smembers(wire.Keys.ENGINES) == {"lately", "older"}

"""May an engine start under its name? A former life of that name is no hindrance."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from engine import wire
from engine.transport.heartbeat import ALIVE_SECONDS
from engine.transport.namesake import NameTaken, check_name
from tests.engine.transport.rig import Rig
from tests.makers import make_status

KEY = wire.Keys.engine("engine-1")


def beat(rig: Rig) -> None:
    rig.redis.set(KEY, wire.encode(make_status(beat_at=time.time())), ex=ALIVE_SECONDS)


@pytest.fixture
def living(rig: Rig) -> Iterator[None]:
    closing = threading.Event()

    def live() -> None:
        while not closing.wait(0.5):
            beat(rig)

    beat(rig)
    thread = threading.Thread(target=live)
    thread.start()
    yield
    closing.set()
    thread.join()


@pytest.mark.usefixtures("living")
def test_a_name_is_taken_while_its_engine_lives(rig: Rig) -> None:
    with pytest.raises(NameTaken, match="engine-1"):
        check_name(rig.url, "engine-1")
    check_name(rig.url, "engine-2")


def test_the_last_beat_of_a_former_life_takes_no_name(rig: Rig) -> None:
    beat(rig)
    check_name(rig.url, "engine-1")


def test_who_was_silent_for_a_while_is_not_waited_for(rig: Rig) -> None:
    beat(rig)
    rig.redis.pexpire(KEY, 2500)
    began = time.monotonic()
    check_name(rig.url, "engine-1")
    assert time.monotonic() - began < 1.0


def test_without_redis_nobody_can_tell() -> None:
    check_name("redis://127.0.0.1:1/0", "engine-1")

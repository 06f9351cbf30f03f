"""The side thread, by a clock of the test's own that moves with every beat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from engine import wire
from engine.transport.exchange import LEASE_SECONDS
from engine.transport.heartbeat import Heartbeat
from tests.engine.transport.rig import Rig, pull_ids
from tests.fakes import FakeClock
from tests.makers import make_status
from tests.waiting import wait_until

Start = Callable[[float], None]


@pytest.fixture
def start(rig: Rig) -> Iterator[Start]:
    """Starts a heartbeat whose clock jumps at its first beat."""
    closing = threading.Event()
    threads = []

    def start(jump_seconds: float) -> None:
        clock, jumps = FakeClock(), iter((jump_seconds,))

        def status() -> wire.EngineStatus:
            clock.now += next(jumps, LEASE_SECONDS * 0.9)
            return make_status("engine-2", beat_at=clock.now)

        heartbeat = Heartbeat(
            rig.url,
            engine_name="engine-2",
            status=status,
            on_doubt=lambda: None,
            closing=closing,
            wall_clock=clock,
        )
        threads.append(threading.Thread(target=heartbeat.run))
        threads[-1].start()

    yield start
    closing.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("jump_seconds", [-3600.0, 3600.0], ids=["back", "forth"])
def test_a_dead_engine_s_requests_go_on_when_the_clock_was_set(
    rig: Rig, start: Start, jump_seconds: float
) -> None:
    rig.queue("a")
    pull_ids(rig.engine("engine-1"))
    rig.redis.zadd(wire.Keys.LEASES, {"a": 1})  # long ago
    start(jump_seconds)
    wait_until(lambda: [one.request_id for one in rig.client.waiting()] == ["a"])

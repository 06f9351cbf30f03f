"""An engine whose exchange thread hangs ends, instead of looking alive for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from engine.transport import Transport, transport
from engine.transport.exchange import Exchange
from engine.transport.inbox import TransportDied
from tests.engine.transport.rig import Rig
from tests.makers import make_status
from tests.redis_process import RedisProcess

BEAT_SECONDS = 0.02


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.transport.heartbeat.BEAT_SECONDS", BEAT_SECONDS)
    monkeypatch.setattr(transport, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(transport, "POLL_SECONDS", BEAT_SECONDS)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until then the exchange hangs where it renews its leases."""
    released = threading.Event()
    monkeypatch.setattr(Exchange, "renew", lambda self: released.wait() and [])
    yield released
    released.set()


def started(url: str) -> Transport:
    made = Transport(
        redis_url=url,
        engine_name="e",
        status=lambda: make_status("e", beat_at=time.time()),
        is_clearing=lambda: False,
        weigh=lambda work: lambda: 0,
    )
    made.start()
    return made


def receive_for(made: Transport, *, beats: int) -> None:
    deadline = time.monotonic() + beats * BEAT_SECONDS
    while time.monotonic() < deadline:
        made.receive(BEAT_SECONDS)


@pytest.mark.usefixtures("release")
def test_an_exchange_that_hangs_ends_the_engine(rig: Rig) -> None:
    made = started(rig.url)
    with pytest.raises(TransportDied) as died:
        receive_for(made, beats=1000)
    assert isinstance(died.value.__cause__, transport.ExchangeStuck)
    made.close()


def test_one_that_waits_for_redis_does_not(mortal_redis: RedisProcess) -> None:
    made = started(mortal_redis.url)
    mortal_redis.kill()
    receive_for(made, beats=4 * transport.MOST_STILL_BEATS)
    mortal_redis.start()
    made.close()

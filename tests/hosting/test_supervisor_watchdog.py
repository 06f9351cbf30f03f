"""When an engine is ended: verdicts over a clock that the test holds, and ends of a process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine import wire
from engine.transport.connection import connect
from hosting.engine_client import EngineClient
from hosting.engine_patience import SILENT_END_SECONDS, STALLED_END_SECONDS
from hosting.supervisor import watchdog
from hosting.supervisor.watchdog import (
    FIRST_BEAT_SECONDS,
    LOOK_EVERY_SECONDS,
    EngineWatch,
    watch_engine,
)
from tests.hosting.test_supervisor_child import Lines, lines, says_pid, supervised
from tests.waiting import wait_until

__all__ = ["lines"]


def status(
    *, engine: str = "engine-1", pid: int = 7, beat_at: float = 1.0, stalled: float = 0.0
) -> wire.EngineStatus:
    return wire.EngineStatus(
        engine=engine,
        pid=pid,
        started_at=0.0,
        beat_at=beat_at,
        stalled_seconds=stalled,
        device="cpu",
        active_bytes=0,
        pool_bytes=0,
        peak_bytes=0,
        process_bytes=0,
        decode_tokens_per_second=0.0,
        prefill_tokens_per_second=0.0,
        generated_tokens=0,
    )


def look(watch: EngineWatch, engines: list[wire.EngineStatus], *, seconds: float) -> str | None:
    """The last verdict of so many seconds of looking; the clock begins at 0."""
    verdict = None
    for number in range(1, int(seconds / LOOK_EVERY_SECONDS) + 1):
        verdict = watch.verdict(engines, now=number * LOOK_EVERY_SECONDS)
    return verdict


def beating_watch() -> EngineWatch:
    watch = EngineWatch(name="engine-1", pid=7, now=0.0)
    assert watch.verdict([status()], now=0.0) is None
    return watch


def test_a_starting_engine_has_a_minute_for_its_first_beat() -> None:
    assert (
        look(EngineWatch(name="engine-1", pid=7, now=0.0), [], seconds=FIRST_BEAT_SECONDS) is None
    )
    assert (
        look(EngineWatch(name="engine-1", pid=7, now=0.0), [], seconds=FIRST_BEAT_SECONDS + 1)
        is not None
    )


def test_the_same_beat_for_too_long_is_silence() -> None:
    assert look(beating_watch(), [status()], seconds=SILENT_END_SECONDS) is None
    assert look(beating_watch(), [status()], seconds=SILENT_END_SECONDS + 0.5) is not None


def test_an_expired_beat_is_silence_too() -> None:
    assert look(beating_watch(), [], seconds=SILENT_END_SECONDS + 0.5) is not None


def test_a_watch_that_stood_still_itself_proves_nothing() -> None:
    watch = beating_watch()
    assert watch.verdict([status()], now=60.0) is None


def test_new_beats_keep_it_alive() -> None:
    watch = EngineWatch(name="engine-1", pid=7, now=0.0)
    for second in range(100):
        assert watch.verdict([status(beat_at=float(second))], now=float(second)) is None


def test_beats_that_tell_of_a_stall_end_it() -> None:
    watch = EngineWatch(name="engine-1", pid=7, now=0.0)
    assert watch.verdict([status(beat_at=1.0, stalled=STALLED_END_SECONDS)], now=1.0) is None
    assert "no progress" in str(
        watch.verdict([status(beat_at=2.0, stalled=STALLED_END_SECONDS + 1)], now=2.0)
    )


def test_the_last_beat_of_an_earlier_life_does_not_count() -> None:
    watch = EngineWatch(name="engine-1", pid=8, now=0.0)
    assert look(watch, [status(pid=7, stalled=60.0)], seconds=30) is None


def test_another_machines_engine_of_the_same_pid_is_no_sign_of_life() -> None:
    others = [status(engine="engine-2", stalled=60.0)]
    assert look(beating_watch(), others, seconds=SILENT_END_SECONDS) is None
    assert "no heartbeat" in str(look(beating_watch(), others, seconds=SILENT_END_SECONDS + 0.5))


def test_silence_while_nothing_can_be_read_proves_nothing() -> None:
    watch = beating_watch()
    watch.verdict([], now=0.5)
    watch.excuse(now=30.0)
    for number in range(int(SILENT_END_SECONDS / LOOK_EVERY_SECONDS) + 1):
        assert watch.verdict([], now=30.0 + number * LOOK_EVERY_SECONDS) is None


class CountedClient(EngineClient):
    num_checks = 0

    def check_writable(self) -> None:
        self.num_checks += 1
        super().check_writable()


async def test_a_silent_engine_is_ended_only_where_redis_takes_heartbeats(
    redis_url: str, lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SILENT_END_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "LOOK_EVERY_SECONDS", 0.01)
    client = CountedClient(redis_url)
    script = "import os, time; print('pid', os.getpid()); time.sleep(600)"
    with connect(redis_url) as redis:
        async with supervised(script, lines, tmp_path) as child:
            await lines.until(says_pid)
            assert child.pid is not None
            redis.sadd(wire.Keys.ENGINES, "engine-1")
            redis.set(wire.Keys.engine("engine-1"), wire.encode(status(pid=child.pid)))
            redis.config_set("maxmemory", 1)  # it reads and refuses to write, as on a full disk
            watch = asyncio.create_task(watch_engine(child, client, lambda said: None))
            try:
                await asyncio.to_thread(wait_until, lambda: client.num_checks >= 3)
                assert not any("SIGKILL" in line for line in lines.all)
            finally:
                redis.config_set("maxmemory", 0)
            await lines.until(lambda line: "by SIGKILL" in line)
            watch.cancel()

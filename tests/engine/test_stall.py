"""When an engine counts as stuck, and what is no reason to think so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.metrics import Vitals
from engine.model.memory import MemoryReadings
from engine.stall import LONG_IDLE_SECONDS, MANY_PAGE_INS, PATIENCE, StallClock, Starvation
from hosting.engine_patience import STALLED_END_SECONDS
from tests.fakes import FakeClock, FakeMemory


class Stall:
    """A clock of stalls under a clock of the test's, looked at once a second."""

    def __init__(self) -> None:
        self.time = FakeClock()
        self.starved_seconds = 0.0
        self.page_ins = 0
        self.waking_seconds = 0.0
        self.clock = StallClock(
            clock=self.time,
            starved_seconds=lambda: self.starved_seconds,
            num_page_ins=lambda: self.page_ins,
            waking_seconds=lambda: self.waking_seconds,
        )
        self.clock.note_busy(True)

    def look(self, *, seconds: int) -> float:
        """What the last of so many looks tells."""
        told = 0.0
        for _ in range(seconds):
            self.time.now += 1
            told = self.clock.look()
        return told


@pytest.fixture
def stall() -> Stall:
    return Stall()


def test_work_that_does_not_move_is_counted(stall: Stall) -> None:
    assert stall.look(seconds=7) == pytest.approx(7)


def test_what_moves_is_not_stalled(stall: Stall) -> None:
    stall.look(seconds=7)
    stall.time.now += 0.7
    stall.clock.note_progress()
    stall.time.now += 0.3
    assert stall.clock.look() == pytest.approx(0.3)


def test_no_work_is_no_stall(stall: Stall) -> None:
    stall.look(seconds=7)
    stall.clock.note_busy(False)
    assert stall.look(seconds=3600) == 0
    stall.clock.note_busy(True)
    assert stall.look(seconds=2) == pytest.approx(2)


def test_a_step_may_take_several_times_what_is_expected(stall: Stall) -> None:
    with stall.clock.working(2.0):
        assert stall.look(seconds=int(2 * PATIENCE)) == 0
        assert stall.look(seconds=1) == pytest.approx(2 * PATIENCE + 1)


def test_a_hang_in_a_slice_is_seen_as_soon_as_one_between_steps(stall: Stall) -> None:
    with stall.clock.working(0.8):
        assert stall.look(seconds=4) > STALLED_END_SECONDS


def test_a_step_that_fails_excuses_nothing_after_it(stall: Stall) -> None:
    with pytest.raises(RuntimeError), stall.clock.working(100.0):
        raise RuntimeError
    assert stall.look(seconds=4) == pytest.approx(4)


def test_time_in_which_memory_comes_back_from_disk_is_not_counted(stall: Stall) -> None:
    """An idle engine's weights may have been swapped out; a hang does not read."""
    for _ in range(20):
        stall.page_ins += MANY_PAGE_INS
        assert stall.look(seconds=1) == 0
    stall.page_ins += MANY_PAGE_INS - 1
    assert stall.look(seconds=4) == pytest.approx(4)


def test_the_first_step_after_a_while_may_wait_for_compressed_memory(stall: Stall) -> None:
    stall.waking_seconds = 8.0
    stall.clock.note_busy(False)
    stall.look(seconds=3600)
    stall.clock.note_busy(True)
    assert stall.look(seconds=8) == 0
    assert stall.look(seconds=1) == pytest.approx(9)
    stall.clock.note_progress()
    assert stall.look(seconds=5) == pytest.approx(5)


def test_who_was_idle_for_a_moment_has_its_memory(stall: Stall) -> None:
    stall.waking_seconds = 8.0
    stall.clock.note_progress()
    stall.clock.note_busy(False)
    stall.look(seconds=int(LONG_IDLE_SECONDS) - 1)
    stall.clock.note_busy(True)
    assert stall.look(seconds=5) == pytest.approx(5)


@pytest.mark.parametrize(("system", "expected"), [("darwin", [0, 0]), ("linux", [7, 9])])
def test_memory_is_compressed_on_macs(
    system: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 GB, at 2 GB a second."""
    monkeypatch.setattr(sys, "platform", system)
    clock = FakeClock()
    vitals = Vitals(engine_name="e", memory=FakeMemory(), clock=clock)
    vitals._readings = MemoryReadings(active_bytes=20 * 10**9)
    clock.now += 3600
    vitals.stall.look()
    vitals.stall.note_busy(True)
    told = []
    for _ in range(9):
        clock.now += 1
        told.append(vitals.status().stalled_seconds)
    assert [told[6], told[8]] == pytest.approx(expected, abs=0.5)


def test_time_without_a_processor_is_not_counted(stall: Stall) -> None:
    stall.starved_seconds = 0.9
    assert stall.look(seconds=10) == pytest.approx(1)


def test_a_pause_of_the_whole_process_counts_as_one_look(stall: Stall) -> None:
    stall.look(seconds=1)
    stall.time.now += 3600
    assert stall.clock.look() < 3


@pytest.fixture
def crowd() -> Iterator[None]:
    """Eight processes for every processor that compute for ever."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(8 * (os.cpu_count() or 1))]
    yield
    for one in loops:
        one.kill()
        one.wait()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux tells")
@pytest.mark.usefixtures("crowd")
def test_who_gets_an_eighth_of_a_processor_is_not_stalled() -> None:
    clock, is_done = StallClock(), threading.Event()
    told = []

    def look() -> None:
        while not is_done.wait(0.1):
            told.append(clock.look())

    looking = threading.Thread(target=look)
    clock.note_busy(True)
    looking.start()
    began_at, ends_at = time.monotonic(), time.thread_time() + 0.3
    while time.thread_time() < ends_at:
        pass
    took = time.monotonic() - began_at
    is_done.set()
    looking.join()
    assert max(told) < 0.5 * took, (max(told), took)


def test_where_nothing_tells_of_it_nobody_starves(tmp_path: Path) -> None:
    assert Starvation(tmp_path).take_seconds() == 0

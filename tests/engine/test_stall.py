"""When an engine counts as stuck, and what is no reason to think so."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.stall import PATIENCE, StallClock, Starvation
from tests.fakes import FakeClock


class Stall:
    """A clock of stalls under a clock of the test's, looked at once a second."""

    def __init__(self) -> None:
        self.time = FakeClock()
        self.starved_seconds = 0.0
        self.clock = StallClock(clock=self.time, starved_seconds=lambda: self.starved_seconds)
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
        assert stall.look(seconds=3) == pytest.approx(3)


def test_a_step_that_fails_excuses_nothing_after_it(stall: Stall) -> None:
    with pytest.raises(RuntimeError), stall.clock.working(100.0):
        raise RuntimeError
    assert stall.look(seconds=4) == pytest.approx(4)


def test_time_without_a_processor_is_not_counted(stall: Stall) -> None:
    stall.starved_seconds = 0.9
    assert stall.look(seconds=10) == pytest.approx(1)


def test_a_pause_of_the_whole_process_counts_as_one_look(stall: Stall) -> None:
    stall.look(seconds=1)
    stall.time.now += 3600
    assert stall.clock.look() < 3


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux counts it")
def test_linux_tells_what_threads_waited_for_a_processor() -> None:
    starvation = Starvation()
    ends_at = time.monotonic() + 0.2

    def spin() -> None:
        while time.monotonic() < ends_at:
            pass

    threads = [threading.Thread(target=spin) for _ in range(4)]
    for one in threads:
        one.start()
    time.sleep(0.1)
    assert starvation.take_seconds() > 0
    for one in threads:
        one.join()


def test_where_nothing_tells_of_it_nobody_starves(tmp_path: Path) -> None:
    assert Starvation(tmp_path).take_seconds() == 0

"""What one request may cost intake."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from engine.intake.limits import TimeLimit, TooSlow


def test_an_alarm_that_comes_while_the_work_ends_hurts_nobody_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.intake.limits._AGAIN_SECONDS", 0.00002)
    num_slow = 0
    for _ in range(500):
        try:
            with TimeLimit(0.0002):
                while True:
                    pass
        except TooSlow:
            num_slow += 1
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert num_slow == 500


_WITH_AN_AUDIT_HOOK = """
import signal, sys
from engine.intake import limits

limits._AGAIN_SECONDS = 0.00002
sys.addaudithook(lambda *_: None)
for _ in range(500):
    try:
        with limits.TimeLimit(0.0002):
            while True:
                pass
    except limits.TooSlow:
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
"""


def test_an_alarm_that_comes_in_an_audit_hook_hurts_nobody_later() -> None:
    """In a process of its own: libraries add such hooks (filelock), and none can be removed."""
    subprocess.run([sys.executable, "-c", _WITH_AN_AUDIT_HOOK], check=True, timeout=60)


def test_work_that_ends_in_time_is_left_alone() -> None:
    with TimeLimit(60.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class _EndsSlowly:
    def __del__(self) -> None:
        time.sleep(5.0)


def test_an_alarm_that_a_destructor_swallows_comes_again() -> None:
    with pytest.raises(TooSlow), TimeLimit(0.01):
        _EndsSlowly()
        time.sleep(5.0)


def test_more_memory_than_allowed_is_an_error_however_much_was_there_before() -> None:
    script = (
        "from engine.intake.limits import limit_memory\n"
        "before = bytearray(2**28)\n"
        "limit_memory(2**27)\n"
        "print(len(bytearray(2**26)))\n"
        "bytearray(2**28)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr.splitlines()[-1]) == (f"{2**26}\n", "MemoryError")

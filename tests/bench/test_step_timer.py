"""What of a step's time counts as the device's, and what as time in which it has nothing to do."""

from __future__ import annotations

import threading
from pathlib import Path

import mlx.core as mx
import pytest

from tests.bench.rivals import step_timer
from tests.bench.step_timer import DeviceClock, Moment, Outside
from tests.tiny_models import tiny_model_path


def test_what_the_device_computes_meanwhile_is_not_on_the_critical_path() -> None:
    begun = Moment(10.0, 3.0)
    assert Moment(10.5, 3.2).outside_since(begun) == pytest.approx((0.5, 0.3))
    assert Moment(10.5, 3.6).outside_since(begun) == (0.5, 0.0)
    assert Outside(1.0, 0.5) + Outside(2.0, 0.25) == Outside(3.0, 0.75)


def test_the_device_is_the_thread_that_mlx_computes_in() -> None:
    """MLX starts one for every stream."""
    moments: list[Moment] = []

    def measure() -> None:
        mx.set_default_stream(mx.new_stream(mx.cpu))
        clock = DeviceClock()
        moments.append(clock.now())
        sum(range(1_000_000))
        moments.append(clock.now())
        mx.eval(mx.exp(mx.random.normal((4_000_000,))).sum())
        moments.append(clock.now())

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    begun, idled, computed = moments
    assert idled.device - begun.device < 0.002
    assert computed.device - idled.device > 0.005


def test_steps_of_a_whole_engine_are_timed(tmp_path: Path) -> None:
    with step_timer(tiny_model_path("tiny-qwen3"), tmp_path) as timer:
        times = timer.time(queue=64, steps=3)
    assert len(times.outside) == len(times.critical) == 3
    assert all(0 <= some <= all_ for some, all_ in zip(times.critical, times.outside, strict=True))

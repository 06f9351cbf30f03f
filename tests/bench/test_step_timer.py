"""What of a step's time counts as the device's, and what as time in which it has nothing to do."""

from __future__ import annotations

import threading

import mlx.core as mx
import pytest

from tests.bench.step_timer import DeviceClock, Moment, Outside


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

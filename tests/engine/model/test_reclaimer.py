"""When unused buffers are given back."""

from __future__ import annotations

from engine.model.reclaimer import Reclaimer


class Pool:
    def __init__(self) -> None:
        self.num_clears = 0

    def clear(self) -> None:
        self.num_clears += 1


def test_nothing_is_cleared_unless_a_request_has_ended() -> None:
    reclaimer = Reclaimer(Pool().clear)
    assert not any(reclaimer.after_step(now=float(n), awaits_first_token=False) for n in range(20))


def test_it_waits_some_steps_after_an_end() -> None:
    pool = Pool()
    reclaimer = Reclaimer(pool.clear)
    reclaimer.want(now=0.0)
    cleared = [reclaimer.after_step(now=0.001, awaits_first_token=False) for _ in range(20)]
    assert cleared.index(True) == 7 and pool.num_clears == 1


def test_a_burst_of_ends_is_one_clear() -> None:
    pool = Pool()
    reclaimer = Reclaimer(pool.clear)
    for number in range(5):
        reclaimer.want(now=number * 0.05)
        reclaimer.after_step(now=number * 0.05, awaits_first_token=False)
    reclaimer.after_step(now=1.0, awaits_first_token=False)
    assert pool.num_clears == 1


def test_it_never_delays_a_first_token() -> None:
    reclaimer = Reclaimer(Pool().clear)
    reclaimer.want(now=0.0)
    assert not reclaimer.after_step(now=9.0, awaits_first_token=True)
    assert reclaimer.after_step(now=9.0, awaits_first_token=False)

"""The order of the rounds, and how their time is dealt out."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.bench.rounds import Budget, interleave

FAR = float("inf")


def recording_sides(names: str, log: list[str]) -> dict[str, Callable[[int], int]]:
    def side(name: str) -> Callable[[int], int]:
        def run(number: int) -> int:
            log.append(f"{name}{number}")
            return number

        return run

    return {name: side(name) for name in names}


def test_sides_take_turns_at_going_first() -> None:
    log: list[str] = []
    interleave(recording_sides("ABC", log), rounds=3, deadline=FAR)
    assert log == ["A0", "B0", "C0", "C1", "B1", "A1", "A2", "B2", "C2"]


def test_samples_are_in_the_order_of_the_rounds() -> None:
    samples = interleave(recording_sides("AB", []), rounds=3, deadline=FAR)
    assert samples == {"A": [0, 1, 2], "B": [0, 1, 2]}


def test_late_rounds_are_left_out_but_never_the_first_two() -> None:
    samples = interleave(recording_sides("AB", []), rounds=5, deadline=time.monotonic())
    assert samples == {"A": [0, 1], "B": [0, 1]}


def test_every_part_gets_an_equal_share_of_what_is_left() -> None:
    budget = Budget(100.0, num_parts=4)
    now = time.monotonic()
    assert 24 < budget.next_deadline() - now < 26
    assert 32 < budget.next_deadline() - now < 35  # the first part took no time at all

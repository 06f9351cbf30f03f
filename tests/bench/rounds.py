"""Rounds in which all sides do the same, in turns, so that the machine's drift meets all alike.

It does not know what a round is or what it measures.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

MIN_ROUNDS = 2
Sample = TypeVar("Sample")


class Budget:
    """The time a benchmark may take, dealt out to its parts one after the other."""

    def __init__(self, seconds: float, *, num_parts: int) -> None:
        self._ends_at = time.monotonic() + seconds
        self._parts_left = num_parts

    def next_deadline(self) -> float:
        """When (monotonic) the next part should end: an equal share of what is left."""
        now = time.monotonic()
        share = max(0.0, self._ends_at - now) / max(1, self._parts_left)
        self._parts_left -= 1
        return now + share


def interleave(
    sides: Mapping[str, Callable[[int], Sample]], *, rounds: int, deadline: float
) -> dict[str, list[Sample]]:
    """Run every side once a round, in the order A B C, C B A, A B C ...

    Each is given the round's number. Rounds that would end after `deadline` are left out, but never
    the first two.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    longest = 0.0
    for number in range(rounds):
        started_at = time.monotonic()
        if number >= MIN_ROUNDS and started_at + longest > deadline:
            break
        for name in sides if number % 2 == 0 else reversed(list(sides)):
            samples[name].append(sides[name](number))
            print(".", end="", file=sys.stderr, flush=True)
        longest = max(longest, time.monotonic() - started_at)
    return samples

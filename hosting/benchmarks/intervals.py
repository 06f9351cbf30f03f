"""What a count or a few measurements say, and what they do not. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_Z = 1.959963984540054  # of the normal distribution, 95 % of it within


class Interval(NamedTuple):
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


def wilson(right: int, asked: int) -> Interval:
    """The 95 % interval of a share (E. B. Wilson, 1927). Of nothing nothing is known."""
    if asked == 0:
        return Interval(0.0, 1.0)
    share, z2 = right / asked, _Z * _Z
    middle = (share + z2 / (2 * asked)) / (1 + z2 / asked)
    half = _Z * math.sqrt(share * (1 - share) / asked + z2 / (4 * asked * asked)) / (1 + z2 / asked)
    low = 0.0 if right == 0 else max(0.0, middle - half)
    high = 1.0 if right == asked else min(1.0, middle + half)
    return Interval(low, high)


def chance_of_difference(only_first: int, only_second: int) -> float:
    """How likely two equally good models differ so much, where each was right alone that often:
    McNemar's exact test, two-sided."""
    total = only_first + only_second
    if total == 0:
        return 1.0
    fewer = min(only_first, only_second)
    tail = sum(math.comb(total, k) for k in range(fewer + 1))
    return float(min(1.0, 2 * tail / 2**total))


def spread(values: Sequence[float]) -> Interval:
    """Of measurements that are too few for more: the lowest and the highest."""
    return Interval(min(values), max(values))


def percentile(values: Sequence[float], percent: int) -> float:
    """Nearest rank: one of the values themselves."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)

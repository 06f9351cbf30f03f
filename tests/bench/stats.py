"""Figures out of samples: percentiles and ratios of paired rounds. Knows no units and no clocks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

median = statistics.median


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lies, interpolated between neighbours."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    lower = int(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)


def flat(rounds: Iterable[Iterable[float]]) -> list[float]:
    """The samples of all rounds together."""
    return [value for one in rounds for value in one]


def median_ratio(ours: Sequence[float], rivals: Sequence[float]) -> float:
    """The median of the ratios of pairs; pair i was measured side by side in round i."""
    return median(own / other for own, other in zip(ours, rivals, strict=True))


def jain_index(shares: Sequence[float]) -> float:
    """1 when all have the same, 1/n when one of n has it all (Jain, Chiu and Hawe, 1984)."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))

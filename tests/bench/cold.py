"""What was measured of a prompt's first token, as parts of what it takes when nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.report import Result, ratio
from tests.bench.stats import median_ratio

Sample = dict[str, float]  # what was done, or "cold": seconds to the first token


def over_cold(
    label: str,
    samples: Sequence[Sample],
    bars: Mapping[str, float | None],
    *,
    side: str = "",
) -> list[Result]:
    """For each that has an entry in `bars`. `side`: what the figures' names end with."""
    cold = [sample["cold"] for sample in samples]
    return [
        ratio(
            f"{label}.{name}_over_cold{side}",
            median_ratio([sample[name] for sample in samples], cold),
            bar=bar,
        )
        for name, bar in bars.items()
    ]

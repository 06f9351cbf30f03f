"""The figures are what they are called."""

from __future__ import annotations

import pytest

from tests.bench.stats import flat, median_ratio, percentile


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile([1.0, 2.0], 0.95) == pytest.approx(1.95)
    assert percentile([7.0], 0.95) == 7.0


def test_the_ends_are_the_least_and_the_greatest() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.0) == 1.0
    assert percentile([3.0, 1.0, 2.0], 1.0) == 3.0


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_ratio_compares_rounds_in_pairs() -> None:
    """A machine that is half as fast in the second round changes nothing."""
    assert median_ratio([200.0, 100.0, 220.0], [100.0, 50.0, 100.0]) == 2.0


def test_rounds_of_different_number_have_no_ratio() -> None:
    with pytest.raises(ValueError):
        median_ratio([1.0, 2.0], [1.0])


def test_flat_joins_the_rounds() -> None:
    assert flat([[1.0], [2.0, 3.0]]) == [1.0, 2.0, 3.0]

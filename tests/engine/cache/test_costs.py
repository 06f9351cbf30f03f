"""What a disk is believed to take, from what it took."""

from __future__ import annotations

import pytest

from engine.cache.costs import FIRST_BYTES_PER_SECOND, LARGE_RESTORE_BYTES, RestoreCosts

MIB = 1 << 20
QUICK, SLOW = 7e9, 1e8  # bytes a second


def read(costs: RestoreCosts, speed: float, *, num_bytes: int = 1000 * MIB) -> None:
    costs.learn(num_bytes, 25, num_bytes / speed)


@pytest.mark.parametrize("speed", [QUICK, SLOW])
def test_the_first_reading_counts_in_full(speed: float) -> None:
    """A disk is not waited for five times because another one would have been quick."""
    costs = RestoreCosts()
    assert costs.bytes_per_second == FIRST_BYTES_PER_SECOND
    read(costs, speed)
    assert costs.bytes_per_second == pytest.approx(speed)


def test_one_slow_reading_does_not_count_for_ever() -> None:
    costs = RestoreCosts()
    read(costs, QUICK)
    read(costs, SLOW)
    assert QUICK / 2 < costs.bytes_per_second < QUICK
    for _ in range(20):
        read(costs, SLOW)
    assert costs.bytes_per_second < 2 * SLOW


def test_a_disk_that_is_passed_over_is_tried_again_but_not_often() -> None:
    """As one that was busy when it was read; computing takes as long as it would with QUICK."""
    costs = RestoreCosts()
    read(costs, QUICK / 2)
    num_bytes, compute_seconds = 1000 * MIB, 1000 * MIB / QUICK
    num_passed_over = 0
    while costs.load_seconds(num_bytes, 0) > compute_seconds and num_passed_over < 1000:
        costs.note_passed_over()
        num_passed_over += 1
    assert 30 <= num_passed_over <= 100


def test_small_restores_tell_what_a_record_takes() -> None:
    costs = RestoreCosts()
    before = costs.bytes_per_second
    for _ in range(30):
        costs.learn(LARGE_RESTORE_BYTES - 1, 4, 4 * 0.02)
    assert costs.bytes_per_second == before
    assert costs.record_seconds == pytest.approx(0.02, rel=0.05)


def test_doubt_is_no_measurement() -> None:
    """However often a disk was passed over, one reading says again what it is."""
    costs = RestoreCosts()
    read(costs, SLOW)
    before = costs.load_seconds(1000 * MIB, 25)
    for _ in range(20_000):
        costs.note_passed_over()
    assert costs.load_seconds(1000 * MIB, 25) < before / 1000
    read(costs, SLOW)
    assert costs.load_seconds(1000 * MIB, 25) == pytest.approx(before)


@pytest.mark.parametrize(("num_records", "seconds"), [(0, 1.0), (4, 0.0)])
def test_what_tells_nothing_teaches_nothing(num_records: int, seconds: float) -> None:
    costs = RestoreCosts()
    costs.learn(100 * MIB, num_records, seconds)
    assert costs.bytes_per_second == FIRST_BYTES_PER_SECOND

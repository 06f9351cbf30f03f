"""The RAM tier's budget, pins and shares."""

from __future__ import annotations

import time

from engine.cache.memory_tier import MemoryTier
from engine.cache.record import Kind, RecordKey


def record(number: int) -> RecordKey:
    return RecordKey(number.to_bytes(32, "big"), Kind.SLICE)


def filled(count: int, *, budget: int = 1000, model: str = "a") -> MemoryTier:
    tier = MemoryTier(budget_bytes=budget)
    for number in range(count):
        tier.put(record(number), number, num_bytes=100, model=model)
    return tier


def test_a_record_larger_than_the_budget_leaves_at_once() -> None:
    tier = MemoryTier(budget_bytes=50)
    assert tier.put(record(1), "x", num_bytes=51, model="a") == [record(1)]
    assert tier.used_bytes == 0


def test_what_comes_back_outlives_what_comes_once() -> None:
    tier = filled(4)
    tier.touch([record(0), record(1)])
    for number in range(10, 30):
        tier.put(record(number), number, num_bytes=100, model="a")
    assert record(0) in tier and record(1) in tier
    assert record(2) not in tier


def test_what_is_pinned_stays_while_there_is_anything_else() -> None:
    tier = filled(10)
    pinned = tier.pin([record(0), record(1)])
    for number in range(10, 30):
        tier.put(record(number), number, num_bytes=100, model="a")
    assert record(0) in tier and record(1) in tier
    tier.unpin(pinned)
    assert tier.pinned_bytes == 0


def test_pins_are_counted() -> None:
    tier = filled(3)
    first, second = tier.pin([record(0)]), tier.pin([record(0)])
    tier.unpin(first)
    assert tier.pinned_bytes == 100
    tier.unpin(second)
    assert tier.pinned_bytes == 0
    assert record(0) in tier


def test_pins_of_what_has_left_hold_nothing_that_comes_again() -> None:
    tier = filled(3)
    tier.pin([record(0)])
    tier.remove(record(0))
    tier.put(record(0), 0, num_bytes=100, model="a")
    tier.unpin(tier.pin([record(0)]))
    assert tier.pinned_bytes == 0 and record(0) in tier


def test_pins_have_half_of_the_budget() -> None:
    tier = filled(10)
    assert len(tier.pin(record(number) for number in range(10))) == 5
    assert tier.pinned_bytes == 500


def test_shrinking_lets_go_of_the_oldest_and_of_pins_only_at_last() -> None:
    tier = filled(10)
    tier.pin([record(0)])
    assert record(0) not in tier.shrink(300)
    assert tier.used_bytes == 300
    assert record(0) in tier.shrink(0)
    assert tier.used_bytes == tier.pinned_bytes == 0
    assert tier.budget_bytes == 1000


def test_a_model_that_fills_its_share_evicts_its_own() -> None:
    tier = filled(5, model="a")
    tier.set_share("b", 0.3)
    for number in range(10, 20):
        tier.put(record(number), number, num_bytes=100, model="b")
    assert tier.model_bytes["b"] == 300
    assert tier.model_bytes["a"] == 500
    assert tier.set_share("a", 0.2)
    assert tier.model_bytes["a"] == 200


def test_of_a_models_own_the_least_recently_used_leaves_first() -> None:
    tier = filled(3, model="b")
    tier.put(record(9), 9, num_bytes=100, model="a")
    tier.touch([record(1)])
    tier.touch([record(0)])
    pinned = tier.pin([record(2)])
    assert tier.set_share("b", 0.2) == [record(1)]
    tier.unpin(pinned)
    assert tier.set_share("b", 0.0) == [record(0), record(2)]
    assert record(9) in tier


def test_a_model_that_fills_its_share_takes_no_longer_behind_much_that_is_older() -> None:
    tier = filled(20_000, budget=1 << 30)
    tier.set_share("b", 100 / (1 << 30))
    started = time.thread_time()
    for number in range(20_000, 20_500):
        tier.put(record(number), number, num_bytes=100, model="b")
    assert time.thread_time() - started < 0.1
    assert tier.model_bytes["b"] == 100


def test_a_removed_record_leaves_no_bytes_behind() -> None:
    tier = filled(3)
    tier.touch([record(1)])
    tier.pin([record(2)])
    for number in range(4):
        tier.remove(record(number))
    assert (tier.used_bytes, tier.pinned_bytes, len(tier)) == (0, 0, 0)
    assert tier.model_bytes["a"] == 0


def test_records_keep_to_what_memory_leaves_until_it_leaves_more() -> None:
    tier = filled(4)
    tier.hold_to(tier.used_bytes)
    assert tier.put(record(10), 10, num_bytes=100, model="a") == [record(0)]
    tier.hold_to(tier.used_bytes + 100)
    assert tier.put(record(11), 11, num_bytes=100, model="a") == []
    tier.hold_to(10_000)
    assert tier.room_bytes == tier.budget_bytes - tier.used_bytes

"""The history of engine readings: slots, growth, coarser slots, and what is forgotten."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import UsageRecord
from engine import wire
from engine.transport.connection import connect
from hosting.actions.history import WINDOWS, history, known_engines, latest_slot, record_readings
from hosting.actions.readings import MAX_MARKS, Reading, merge, read
from hosting.models import EngineReading
from tests.engine.transport.rig import Rig
from tests.makers import make_status

START = 1_800_000_000  # a whole hour
ENGINE = "engine-1"


@pytest.fixture
def engine_says(redis_url: str, transactional_db: None) -> Any:
    """Puts a heartbeat into Redis; without fields the engine is gone."""

    def say(**fields: Any) -> None:
        with connect(redis_url) as redis:
            redis.delete(wire.Keys.engine(ENGINE))
            redis.sadd(wire.Keys.ENGINES, ENGINE)
            if fields:
                redis.set(wire.Keys.engine(ENGINE), wire.encode(make_status(ENGINE, **fields)))

    return say


def cache_status(**fields: Any) -> wire.CacheStatus:
    model = wire.ModelCacheStatus(model="demo", **fields)
    return wire.CacheStatus(memory=wire.MemoryTierStatus(budget_bytes=100), models=(model,))


def window(name: str, now: float) -> Any:
    return history(ENGINE, WINDOWS[name], now)


def test_a_reading_is_kept_once_in_a_slot(engine_says: Any) -> None:
    engine_says(decode_tokens_per_second=10.0)
    record_readings(START + 1)
    engine_says(decode_tokens_per_second=99.0)
    record_readings(START + 4)
    assert window("5m", START + 4).gauges("decode_tokens_per_second")[-1] == 10.0
    assert latest_slot() == START


def test_a_time_without_an_engine_is_a_gap_and_not_zero(engine_says: Any) -> None:
    engine_says(active_bytes=7)
    record_readings(START)
    engine_says()
    record_readings(START + 5)
    engine_says(active_bytes=9)
    record_readings(START + 10)
    assert window("5m", START + 10).gauges("memory_used_bytes")[-3:] == [7, None, 9]


def test_counters_are_kept_as_what_they_grew_by(engine_says: Any) -> None:
    for at, total in ((0, 100), (5, 130), (10, 130)):
        engine_says(generated_tokens=total)
        record_readings(START + at)
    assert window("5m", START + 10).counts("generated_tokens")[-3:] == [0, 30, 0]


def test_a_restarted_engine_counts_from_its_new_beginning(engine_says: Any) -> None:
    engine_says(generated_tokens=1000, started_at=1.0)
    record_readings(START)
    engine_says(generated_tokens=40, started_at=2.0)
    record_readings(START + 5)
    assert window("5m", START + 5).counts("generated_tokens")[-1] == 40


def test_who_waits_in_the_queue_is_counted(engine_says: Any, rig: Rig) -> None:
    rig.submit("a", "b")
    rig.admit_all()
    engine_says(active_bytes=1)
    record_readings(START)
    assert window("5m", START).gauges("num_waiting")[-1] == 2


def test_a_model_has_its_own_figures(engine_says: Any) -> None:
    for at, tokens in ((0, 0), (5, 50)):
        engine_says(cache=cache_status(looked_up_tokens=tokens, misses={"unknown": tokens // 10}))
        record_readings(START + at)
    seen = window("5m", START + 5)
    assert seen.counts("looked_up_tokens@demo")[-1] == 50
    assert seen.counts("miss_unknown@demo")[-1] == 5


def test_marks_come_once(engine_says: Any) -> None:
    marks = (
        wire.MemoryMark(kind="load", at=START - 9.0, model="demo"),
        wire.MemoryMark(kind="unload", at=START + 3.0, model="demo"),
    )
    for at in (0, 5, 10):
        engine_says(
            beat_at=START + at,
            memory=wire.MemoryStatus(limit_bytes=10, marks=marks if at else marks[:1]),
        )
        record_readings(START + at)
    kinds = [
        [mark["kind"] for mark in reading.marks]
        for reading in window("5m", START + 10).readings[-3:]
        if reading
    ]
    assert kinds == [[], ["unload"], []]


def test_requests_that_would_never_have_fitted_are_marked_once(engine_says: Any) -> None:
    """No engine has seen them: intake refused them."""

    def refuse(seconds: float, code: str) -> None:
        moment = datetime.datetime.fromtimestamp(START + seconds, datetime.UTC)
        UsageRecord.objects.create(
            generation_id=uuid.uuid4(), end="refused", error_code=code, model_name="demo",
            created_at=moment,
        )  # fmt: skip

    refuse(7, wire.Code.DOES_NOT_FIT)
    refuse(8, wire.Code.QUEUE_FULL)
    refuse(9.5, wire.Code.DOES_NOT_FIT)
    for at in (0, 5, 10, 15, 20):
        engine_says(memory=wire.MemoryStatus(limit_bytes=10))
        record_readings(START + at)
    seen = window("5m", START + 20)
    told = [(mark["kind"], mark["at"] - START) for one in seen.readings[-5:] for mark in one.marks]
    assert told == [("refusal", 7.0), ("refusal", 9.5)]
    assert sum(filter(None, seen.counts("num_refused"))) == 2


def test_coarser_slots_add_counts_and_average_gauges(engine_says: Any) -> None:
    for at in range(0, 125, 5):
        engine_says(generated_tokens=2 * at, active_bytes=100 if at < 60 else 300)
        record_readings(START + at)
    seen = window("6h", START + 120)
    assert seen.gauges("memory_used_bytes")[-3:] == [100, 300, 300]
    assert seen.counts("generated_tokens")[-3:] == [110, 120, 10]
    for name in ("24h", "7d", "30d"):
        assert window(name, START + 120).gauges("memory_used_bytes")[-1] == 204
        assert window(name, START + 120).counts("generated_tokens")[-1] == 240


def test_the_highest_is_the_same_however_long_the_time_that_is_shown(engine_says: Any) -> None:
    for at in (0, 5, 60):
        engine_says(
            active_bytes=900 if at == 5 else 100,
            process_bytes=700 if at == 5 else 300,
            cache=cache_status(memory_bytes=50 if at == 5 else 20),
        )
        record_readings(START + at)
    for name in WINDOWS:
        seen = window(name, START + 60)
        assert seen.highest("memory_used_bytes") == 900, name
        assert seen.highest("memory_process_bytes") == 700, name
        assert seen.highest("memory_bytes@demo") == 50, name
        assert seen.highest("memory_bytes@gone") is None
    assert seen.peaks("memory_used_bytes")[-1] == 900
    assert seen.gauges("memory_used_bytes")[-1] == pytest.approx(1100 / 3)


def test_the_highest_of_this_minute_is_known_at_once(engine_says: Any) -> None:
    for at in (0, 60, 65):
        engine_says(active_bytes=900 if at == 65 else 100)
        record_readings(START + at)
    assert {window(name, START + 65).highest("memory_used_bytes") for name in WINDOWS} == {900}


def test_a_slot_without_its_last_minute_is_complete_after_a_pause(engine_says: Any) -> None:
    """Whoever records may die at any moment: the next one begins where the rows end."""
    for at in (0, 5, 10, 4 * 3600):
        engine_says(active_bytes=100 + at)
        record_readings(START + at)
    seen = history(ENGINE, WINDOWS["6h"], START + 4 * 3600)
    assert seen.gauges("memory_used_bytes")[-1 - 240] == 105


def test_storage_is_bounded(engine_says: Any) -> None:
    engine_says(active_bytes=1)
    for day in range(40):
        for at in (0, 5, 60, 3600, 3605):
            record_readings(START + day * 86_400 + at)
    end = START + 39 * 86_400 + 3605
    oldest = {
        step: end - EngineReading.objects.filter(step_seconds=step).earliest("at").at
        for step in (5, 60, 300, 900, 3600)
    }
    assert all(
        age <= kept
        for age, kept in zip(
            oldest.values(),
            (3660, 6 * 3600 + 120, 86_400 + 600, 7 * 86_400 + 1800, 30 * 86_400 + 7200),
            strict=True,
        )
    ), oldest
    assert oldest[3600] > 29 * 86_400


def test_readings_from_the_future_do_not_stay(engine_says: Any) -> None:
    engine_says(active_bytes=1)
    record_readings(START + 10 * 86_400)
    for at in (0, 60):
        record_readings(START + at)
    assert latest_slot() == START + 60


def test_a_clock_that_was_set_back_freezes_no_history(engine_says: Any) -> None:
    """Pages are told of news by the latest slot, and slots that are there are not made again."""
    engine_says(active_bytes=1)
    for at in range(0, 3600, 60):
        record_readings(START + at)
    engine_says(active_bytes=2)
    record_readings(START + 30)
    assert latest_slot() == START + 60  # what is ahead by less may be another machine's
    record_readings(START + 95)
    assert latest_slot() == START + 95


def test_engines_are_known_by_their_readings(engine_says: Any) -> None:
    assert known_engines() == []
    engine_says(active_bytes=1)
    record_readings(START)
    assert known_engines() == [ENGINE]


def test_every_window_has_a_bounded_number_of_points() -> None:
    assert all(one.seconds % one.step_seconds == 0 for one in WINDOWS.values())
    assert max(one.seconds // one.step_seconds for one in WINDOWS.values()) == 720


_BEATS = st.lists(st.integers(0, 1000), min_size=1, max_size=24)


@given(_BEATS, st.integers(1, 5))
def test_merging_in_two_steps_is_merging_in_one(totals: list[int], split: int) -> None:
    readings = []
    before = None
    for number, total in enumerate(totals):
        status = make_status(beat_at=float(number), generated_tokens=total, active_bytes=total)
        before = read(status, num_queued=0, before=before)
        readings.append(before)
    parts = [merge(readings[i : i + split]) for i in range(0, len(readings), split)]
    at_once, in_two = merge(readings), merge(parts)
    assert in_two.counts == at_once.counts
    assert in_two.num_beats == len(totals)
    assert in_two.gauges == pytest.approx(at_once.gauges)


def test_a_burst_of_marks_is_bounded() -> None:
    readings = [Reading(gauges={}, marks=[{"at": n}] * MAX_MARKS) for n in range(3)]
    assert merge(readings).marks == [{"at": 2}] * MAX_MARKS

"""What lies above the disk tier's limits leaves by itself, and what is saved meanwhile is kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.cache.disk_tier import MAX_UNLINKS, DiskTier
from engine.cache.files import RealFiles
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from tests.waiting import wait_until

from .toys import CONTENTS, UNLIMITED, arrays_of, make_disk, make_rows, record_files

FILE_BYTES = 5_400  # of these records; a little less
NUM_RECORDS = 2 * MAX_UNLINKS + 6
LOWERED = dataclasses.replace(UNLIMITED, budget_bytes=4 * FILE_BYTES)


class SmallDisk(RealFiles):
    """With room for 105 records."""

    def free_bytes(self, directory: Path) -> int:
        return 105 * FILE_BYTES - sum(one.stat().st_size for one in record_files(directory))


def filled(directory: Path, *, files: RealFiles | None = None) -> DiskTier:
    disk = make_disk(directory, files=files)
    for row in make_rows(NUM_RECORDS):
        assert disk.save(row, arrays_of(row)).is_persisted
    return disk


def trim(disk: DiskTier) -> int:
    """All of it; how many records went."""
    num_gone = 0
    while gone := disk.trim():
        assert len(gone) <= MAX_UNLINKS
        num_gone += len(gone)
    return num_gone


def test_a_tier_comes_down_to_a_lowered_budget_while_there_is_nothing_to_do(
    tmp_path: Path,
) -> None:
    filled(tmp_path).close()
    disk = make_disk(tmp_path, limits=LOWERED)
    rows = disk.index.take_rows()
    io = CacheIO(disk, max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS, rows=rows)
    assert len(cache.nodes) == NUM_RECORDS
    wait_until(lambda: disk.used_bytes <= LOWERED.budget_bytes and io.is_idle)
    cache.take_fetched()
    assert {node.key for node in cache.nodes} == {row.record.block for row in rows[-4:]}
    assert sum(cache.nodes.disk_bytes.values()) == disk.used_bytes
    assert len(record_files(tmp_path)) == 4
    assert io.close(wait_seconds=10)


def test_a_model_comes_down_to_a_lowered_share(tmp_path: Path) -> None:
    disk = filled(tmp_path)
    other = dataclasses.replace(make_rows(1, first_token=9_000)[0], model="other", used_at=-1.0)
    disk.save(other, arrays_of(other))
    disk.set_share("toy", 3 * FILE_BYTES / UNLIMITED.budget_bytes)
    assert trim(disk) == NUM_RECORDS - 3
    assert disk.index.has(other.record)


def test_the_tier_leaves_to_others_what_must_stay_free(tmp_path: Path) -> None:
    disk = filled(tmp_path, files=SmallDisk())
    assert trim(disk) == 0
    disk.limits = dataclasses.replace(UNLIMITED, free_floor_bytes=100 * FILE_BYTES)
    trim(disk)
    assert len(record_files(tmp_path)) == 5


def test_what_is_saved_while_the_tier_comes_down_is_kept_and_it_never_grows(
    tmp_path: Path,
) -> None:
    disk = filled(tmp_path)
    disk.limits = LOWERED
    used_bytes = disk.used_bytes
    for row in make_rows(8, first_token=100_000):
        outcome = disk.save(dataclasses.replace(row, used_at=1e6 + row.used_at), arrays_of(row))
        assert outcome.is_persisted and len(outcome.evicted) <= MAX_UNLINKS
        assert disk.used_bytes <= max(used_bytes, LOWERED.budget_bytes)
        used_bytes = disk.used_bytes
    assert disk.used_bytes <= LOWERED.budget_bytes


def test_what_is_larger_than_a_lowered_budget_is_not_written(tmp_path: Path) -> None:
    disk = filled(tmp_path)
    disk.limits = dataclasses.replace(UNLIMITED, budget_bytes=100)
    (row,) = make_rows(1, first_token=100_000)
    assert not disk.save(row, arrays_of(row)).is_persisted
    assert disk.counters.hindrance == "its budget is full"


def test_trimming_outlives_an_index_that_cannot_be_written(tmp_path: Path) -> None:
    disk = filled(tmp_path)
    disk.limits = LOWERED
    disk.index.close()
    assert not disk.trim()
    assert disk.counters.num_write_errors == 1

"""The SSD tier against faults: torn writes, flipped bits, foreign files, full and failing disks."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import sqlite3
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from engine.cache.disk_tier import MAX_UNLINKS, DiskLimits
from engine.cache.files import RealFiles
from engine.cache.record import ArrayBytes, Kind, RecordKey

from .toys import UNLIMITED, arrays_of, content_of, make_disk, make_rows, record_files


def test_what_was_saved_is_read_back_after_a_restart(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    assert disk.save(row, arrays_of(row)).is_persisted
    disk.close()
    reopened = make_disk(tmp_path)
    assert [found.record for found in reopened.index.take_rows()] == [row.record]
    found = reopened.load(row.record, row.tokens)
    assert found is not None
    assert content_of(found) == content_of(arrays_of(row))
    assert [array.shape for array in found] == [(10, 100), (2000,)]


def test_an_array_without_elements_is_read_back(tmp_path: Path) -> None:
    """A chunked layer's window is empty where a chunk begins."""
    (row,) = make_rows(1)
    disk = make_disk(tmp_path)
    empty = np.zeros((1, 2, 0, 8), np.float32)
    arrays = [ArrayBytes("float32", empty.shape, memoryview(empty)), *arrays_of(row)]
    assert disk.save(row, arrays).is_persisted
    found = disk.load(row.record, row.tokens)
    assert found is not None
    assert [one.shape for one in found] == [one.shape for one in arrays]
    assert content_of(found) == [b"", *content_of(arrays_of(row))]


def test_a_model_above_its_share_of_the_budget_evicts_its_own_oldest(tmp_path: Path) -> None:
    rows = make_rows(20)
    others, own = rows[:4], [dataclasses.replace(row, model="greedy") for row in rows[4:]]
    limits = dataclasses.replace(UNLIMITED, budget_bytes=40 * 10_000)
    disk = make_disk(tmp_path, limits=limits)
    for row in (*others, *own[:8]):
        assert disk.save(row, arrays_of(row)).is_persisted
    disk.close()
    disk = make_disk(tmp_path, limits=limits)  # a share counts what was there before, too
    disk.set_share("greedy", 0.1)
    outcomes = [disk.save(row, arrays_of(row)) for row in own[8:]]
    assert all(one.is_persisted for one in outcomes)
    assert {one for out in outcomes for one in out.evicted} < {row.record for row in own}
    assert 0 < disk.index.model_bytes("greedy") <= 4 * 10_000
    assert disk.index.has(own[-1].record) and all(disk.index.has(one.record) for one in others)
    disk.set_share("greedy", 0.01)
    refused = disk.save(own[0], arrays_of(own[0]))
    assert not refused.is_persisted and disk.index.model_bytes("greedy") == 0
    assert disk.counters.hindrance == "greedy has filled its share of the budget"


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    disk = make_disk(tmp_path / "cache")
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    for path in (tmp_path / "cache").rglob("*"):
        forbidden = stat.S_IRWXG | stat.S_IRWXO
        assert path.name.startswith("index") or not path.stat().st_mode & forbidden
    assert not (tmp_path / "cache").stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def test_the_estimated_size_is_the_files_size(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    rows = make_rows(3)
    outcomes = [disk.save(row, arrays_of(row)) for row in rows]
    sizes = [path.stat().st_size for path in record_files(tmp_path)]
    assert sorted(outcome.file_bytes for outcome in outcomes) == sorted(sizes)
    assert disk.used_bytes == sum(sizes)


def test_every_flipped_bit_is_a_counted_miss(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    (path,) = record_files(tmp_path)
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        assert disk.load(row.record, row.tokens) is None, at
        disk.save(row, arrays_of(row))
    assert disk.counters.num_corrupt == len(range(0, len(good), 7))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda good: good[:-1],
        lambda good: b"",
        lambda good: good + b"x",
        lambda good: good[: len(good) // 2] + bytes(len(good) - len(good) // 2),
        lambda good: bytes(len(good)),
        lambda good: b"OLDFORMA" + good[8:],
        lambda good: good[:8] + b"\xff\xff\xff\x7f" + good[12:],
    ],
    ids=["cut", "empty", "longer", "zeroed page", "zeroed", "old format", "huge header"],
)
def test_a_spoiled_file_is_a_miss(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    (path,) = record_files(tmp_path)
    path.write_bytes(spoil(path.read_bytes()))
    assert disk.load(row.record, row.tokens) is None
    assert disk.counters.num_corrupt == 1
    assert disk.used_bytes == 0


def test_swapped_files_are_two_misses(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    rows = make_rows(2)
    for row in rows:
        disk.save(row, arrays_of(row))
    one, two = record_files(tmp_path)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert [disk.load(row.record, row.tokens) for row in rows] == [None, None]


def test_swapped_files_of_the_same_tokens_are_misses_as_well(tmp_path: Path) -> None:
    """A block that repeats in a prompt, and both kinds of one block."""
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    block = row.record.block
    places = [RecordKey(block, Kind.SLICE), RecordKey(block[::-1], Kind.SLICE)]
    rows = [
        dataclasses.replace(row, record=record)
        for record in (*places, RecordKey(block, Kind.BOUNDARY))
    ]
    for one in rows:
        disk.save(one, arrays_of(one))
    paths = [tmp_path / one.record.block.hex()[0] / one.record.file_name for one in rows]
    first, *others = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*others, first], strict=True):
        path.write_bytes(content)
    assert [disk.load(one.record, one.tokens) for one in rows] == [None] * 3


def test_a_symlink_in_a_records_place_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    disk = make_disk(tmp_path / "cache")
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    (path,) = record_files(tmp_path / "cache")
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert disk.load(row.record, row.tokens) is None
    path.symlink_to(elsewhere)
    assert disk.save(row, [ArrayBytes("f", (4,), b"else")]).is_persisted
    assert not path.is_symlink() and elsewhere.read_bytes() == before


def test_a_deleted_directory_changes_nothing_but_speed(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    rows = make_rows(4)
    for row in rows[:2]:
        disk.save(row, arrays_of(row))
    for path in record_files(tmp_path):
        path.unlink()
        path.parent.rmdir()
    assert disk.load(rows[0].record, rows[0].tokens) is None
    assert disk.save(rows[2], arrays_of(rows[2])).is_persisted


def test_the_oldest_leave_first_and_few_at_a_time(tmp_path: Path) -> None:
    small = DiskLimits(budget_bytes=40_000, free_floor_bytes=0, daily_write_bytes=1 << 40)
    disk = make_disk(tmp_path, limits=small)
    rows = make_rows(30)
    for row in rows:
        outcome = disk.save(row, arrays_of(row))
        assert outcome.is_persisted
        assert len(outcome.evicted) <= MAX_UNLINKS
        assert disk.used_bytes <= small.budget_bytes
    kept = {found.record for found in disk.index.oldest(1000)}
    assert kept == {row.record for row in rows[-len(kept) :]}
    assert len(record_files(tmp_path)) == len(kept)


def test_a_save_unlinks_a_bounded_number_and_the_next_goes_on(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    rows = make_rows(MAX_UNLINKS + 12)
    for row in rows[:-2]:
        assert disk.save(row, arrays_of(row)).is_persisted
    disk.limits = dataclasses.replace(UNLIMITED, budget_bytes=12_000)
    first, second = (disk.save(row, arrays_of(row)) for row in rows[-2:])
    assert len(first.evicted) == MAX_UNLINKS and first.is_persisted
    assert 0 < len(second.evicted) <= MAX_UNLINKS and second.is_persisted
    assert disk.used_bytes <= 12_000


def test_the_oldest_make_room_where_others_have_filled_the_disk(tmp_path: Path) -> None:
    """The budget would allow more; the floor of free disk does not."""
    files = SmallDisk()
    disk = make_disk(
        tmp_path, limits=dataclasses.replace(UNLIMITED, free_floor_bytes=1000), files=files
    )
    rows = make_rows(12)
    outcomes = [disk.save(row, arrays_of(row)) for row in rows]
    assert all(one.is_persisted for one in outcomes)
    assert [record for one in outcomes for record in one.evicted][:3] == [
        row.record for row in rows[:3]
    ]
    assert files.free_bytes(tmp_path) >= 1000


def test_what_was_used_lately_stays_longer_than_what_was_written_lately(tmp_path: Path) -> None:
    small = DiskLimits(budget_bytes=12_000, free_floor_bytes=0, daily_write_bytes=1 << 40)
    disk = make_disk(tmp_path, limits=small)
    read, written, newest = make_rows(3)
    disk.save(read, arrays_of(read))
    disk.save(written, arrays_of(written))
    disk.touch([read.record], 1e9)
    assert disk.save(newest, arrays_of(newest)).evicted == (written.record,)


def test_the_day_has_a_write_budget(tmp_path: Path) -> None:
    limits = DiskLimits(budget_bytes=1 << 30, free_floor_bytes=0, daily_write_bytes=12_000)
    disk = make_disk(tmp_path, limits=limits)
    outcomes = [disk.save(row, arrays_of(row)).is_persisted for row in make_rows(5)]
    assert outcomes == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("changes", "hindrance"),
    [
        ({"free_floor_bytes": 3 << 30}, "less than 3 GiB are free on its disk"),
        ({"daily_write_bytes": 100}, "today's write budget is used up"),
        ({"budget_bytes": 100}, "its budget is full"),
    ],
)
def test_why_nothing_is_written_is_told(
    tmp_path: Path, changes: dict[str, int], hindrance: str
) -> None:
    files = RoomyFiles()
    disk = make_disk(tmp_path, limits=dataclasses.replace(UNLIMITED, **changes), files=files)
    rows = make_rows(2)
    assert not disk.save(rows[0], arrays_of(rows[0])).is_persisted
    assert disk.counters.hindrance == hindrance
    assert disk.counters.num_write_errors == 0
    disk.limits = UNLIMITED
    assert disk.save(rows[1], arrays_of(rows[1])).is_persisted
    assert disk.counters.hindrance == ""


class RoomyFiles(RealFiles):
    """On a disk with 2 GiB to spare."""

    def free_bytes(self, directory: Path) -> int:
        return 2 << 30


class SmallDisk(RealFiles):
    """With room for a few records."""

    def free_bytes(self, directory: Path) -> int:
        return 30_000 - sum(path.stat().st_size for path in record_files(directory))


class FailingFiles(RealFiles):
    """Fails writes with `code` while it is set; writes half of the data first."""

    code: int | None = None

    def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.code is None:
            super().write_new(path, pieces)
            return
        path.write_bytes(bytes(next(iter(pieces)))[:10])
        raise OSError(self.code, "injected")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failing_disk_is_survived_counted_and_left_clean(tmp_path: Path, code: int) -> None:
    files = FailingFiles()
    disk = make_disk(tmp_path, files=files)
    rows = make_rows(3)
    disk.save(rows[0], arrays_of(rows[0]))
    files.code = code
    assert not disk.save(rows[1], arrays_of(rows[1])).is_persisted
    assert disk.counters.num_write_errors == 1
    assert disk.counters.last_error == "injected"
    assert not list(tmp_path.glob("*.tmp"))
    assert disk.counters.hindrance == "injected"
    files.code = None
    assert disk.save(rows[2], arrays_of(rows[2])).is_persisted
    assert disk.counters.hindrance == ""
    assert {found.record for found in disk.index.oldest(1000)} == {rows[0].record, rows[2].record}


def break_index(path: Path) -> None:
    path.write_bytes(b"this is not a database at all" * 100)


def set_old_format(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=1")


def empty_index(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [break_index, set_old_format, empty_index])
def test_a_broken_index_is_started_anew(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    disk.close()
    spoil(tmp_path / "index.sqlite3")
    reopened = make_disk(tmp_path, limits=UNLIMITED)
    assert reopened.load(row.record, row.tokens) is not None or reopened.used_bytes == 0
    assert reopened.save(row, arrays_of(row)).is_persisted

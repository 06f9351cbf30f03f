"""The SSD tier's folder as others leave it: bad disks, strays, junk, deletion."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import resource
import shutil
import sqlite3
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cache.disk_index import LOCKED_SECONDS, DiskIndex
from engine.cache.disk_tier import DiskLimits
from engine.cache.files import RealFiles
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.record import ArrayBytes

from .toys import arrays_of, content_of, make_disk, make_rows, record_files


def flip_in_index(directory: Path, column: str, bit: int) -> None:
    """One bit of one field of the only row, as a bad disk might."""
    with contextlib.closing(sqlite3.connect(directory / "index.sqlite3")) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM record").fetchone()
        if isinstance(value, float):
            value = struct.unpack("<q", struct.pack("<d", value))[0]
            changed: object = struct.unpack("<d", struct.pack("<q", value ^ (1 << (40 + bit))))[0]
        elif isinstance(value, int):
            changed = value ^ (1 << bit)
        else:
            content = bytearray(value.encode() if isinstance(value, str) else value)
            content[len(content) // 2] ^= 1 << (bit % 7)
            changed = content.decode("latin-1") if isinstance(value, str) else bytes(content)
        connection.execute(f"UPDATE record SET {column} = ?", (changed,))
        connection.commit()


@pytest.mark.parametrize(
    "column", ["key", "kind", "model", "parent", "tokens", "file_bytes", "owners", "checksum"]
)
def test_a_flipped_bit_in_any_field_of_the_index_is_a_counted_miss(
    tmp_path: Path, column: str
) -> None:
    (row,) = make_rows(1)
    for bit in range(7):
        directory = tmp_path / str(bit)
        disk = make_disk(directory)
        disk.save(row, arrays_of(row))
        disk.close()
        flip_in_index(directory, column, bit)
        reopened = make_disk(directory)
        assert reopened.index.take_rows() == []
        assert reopened.counters.num_corrupt == 1
        assert reopened.used_bytes == 0
        while not reopened.sweep():
            pass
        assert not record_files(directory)
        reopened.close()


@pytest.mark.parametrize("column", ["used_at", "is_published"])
def test_a_flipped_bit_in_the_order_of_leaving_spoils_nothing(tmp_path: Path, column: str) -> None:
    (row,) = make_rows(1)
    for bit in range(7):
        disk = make_disk(tmp_path / str(bit))
        disk.save(row, arrays_of(row))
        disk.close()
        flip_in_index(tmp_path / str(bit), column, bit)
        reopened = make_disk(tmp_path / str(bit))
        (found,) = reopened.index.take_rows()
        assert dataclasses.replace(found, used_at=row.used_at, file_bytes=0) == row
        arrays = reopened.load(found.record, found.tokens)
        assert arrays is not None and content_of(arrays) == content_of(arrays_of(row))
        reopened.close()


def test_a_zeroed_page_anywhere_in_a_large_file_is_a_miss(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    (row,) = make_rows(1)
    large = [ArrayBytes("f", (40_000,), random.Random(1).randbytes(40_000))]
    disk.save(row, large)
    (path,) = record_files(tmp_path)
    good = path.read_bytes()
    for start in range(0, len(good), 4096):
        page = bytes(len(good[start : start + 4096]))
        path.write_bytes(good[:start] + page + good[start + 4096 :])
        assert disk.load(row.record, row.tokens) is None
        disk.save(row, large)


@pytest.mark.parametrize("is_closed", [True, False], ids=["index", "log of the index"])
def test_a_zeroed_page_anywhere_in_the_index_never_stops_a_start(
    tmp_path: Path, is_closed: bool
) -> None:
    rows = make_rows(20)
    disk = make_disk(tmp_path)
    for row in rows:
        disk.save(row, arrays_of(row))
    if is_closed:
        disk.close()
    files = {path: path.read_bytes() for path in tmp_path.glob("index.sqlite3*")}
    disk.close()
    path = tmp_path / ("index.sqlite3" if is_closed else "index.sqlite3-wal")
    good = files[path]
    for start in range(0, len(good), 4096 if is_closed else 16 * 4096):
        for name, content in files.items():
            name.write_bytes(content)
        path.write_bytes(good[:start] + bytes(4096) + good[start + 4096 :])
        reopened = make_disk(tmp_path)
        for found in reopened.index.take_rows():
            arrays = reopened.load(found.record, found.tokens)
            assert arrays is None or content_of(arrays) == content_of(arrays_of(found))
        outcomes = [reopened.save(rows[0], arrays_of(rows[0])).is_persisted for _ in range(2)]
        assert outcomes[-1]  # the first may have met the damage
        reopened.close()


def test_a_record_of_another_model_in_a_records_place_is_a_miss(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    ours, theirs = make_rows(1) + make_rows(1, first_token=9000)
    for row in (ours, theirs):
        disk.save(row, arrays_of(row))
    one = next(path for path in record_files(tmp_path) if path.name == ours.record.file_name)
    other = next(path for path in record_files(tmp_path) if path.name == theirs.record.file_name)
    one.write_bytes(other.read_bytes())
    assert disk.load(ours.record, ours.tokens) is None
    assert disk.load(theirs.record, theirs.tokens) is not None


def test_strays_are_swept_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    known, stray = make_rows(2)
    disk.save(known, arrays_of(known))
    folder = tmp_path / stray.record.block.hex()[0]
    folder.mkdir(exist_ok=True)
    (folder / stray.record.file_name).write_bytes(b"left by a lost index")
    old_folder = tmp_path / known.record.block.hex()[:2]
    old_folder.mkdir()
    (old_folder / known.record.file_name).write_bytes(b"where it lay in an earlier format")
    (tmp_path / f"{'0' * 16}-7.tmp").write_bytes(b"left by a dead process")
    (tmp_path / "notes.txt").write_text("somebody's")
    while not disk.sweep():
        pass
    assert [path.name for path in record_files(tmp_path)] == [known.record.file_name]
    assert disk.load(known.record, known.tokens) is not None
    assert (tmp_path / "notes.txt").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_junk_files_slow_neither_the_start_nor_the_use(tmp_path: Path) -> None:
    """JUNK_FILES=100000 for a night."""
    for number in range(int(os.environ.get("JUNK_FILES", "3000"))):
        (tmp_path / f"junk-{number}").touch()
    files = CountingFiles()
    started = time.thread_time()
    disk = make_disk(tmp_path, files=files)
    (row,) = make_rows(1)
    disk.save(row, arrays_of(row))
    assert disk.load(row.record, row.tokens) is not None
    assert not disk.sweep()
    assert time.thread_time() - started < 0.1
    assert files.num_reads == 1


class CountingFiles(RealFiles):
    num_reads = 0

    def read(self, path: Path) -> bytes:
        self.num_reads += 1
        return super().read(path)


def test_after_its_folder_was_deleted_the_tier_begins_again(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    disk = make_disk(directory)
    rows = make_rows(3)
    disk.save(rows[0], arrays_of(rows[0]))
    shutil.rmtree(directory)
    assert disk.load(rows[0].record, rows[0].tokens) is None
    disk.save(rows[1], arrays_of(rows[1]))
    assert disk.save(rows[2], arrays_of(rows[2])).is_persisted
    assert disk.load(rows[2].record, rows[2].tokens) is not None


def test_an_index_that_cannot_be_written_costs_the_save_only(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    rows = make_rows(2)
    disk.save(rows[0], arrays_of(rows[0]))
    disk.index.close()  # every statement fails from here on
    assert not disk.save(rows[1], arrays_of(rows[1])).is_persisted
    assert disk.load(rows[0].record, rows[0].tokens) is not None
    disk.touch([rows[0].record], 1.0)
    disk.set_owners({rows[0].record: frozenset()})
    disk.remove([rows[0].record])
    assert disk.sweep()
    assert disk.counters.num_write_errors > 3
    assert not list(tmp_path.glob("*.tmp"))


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """No file of this process may grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Another program writes to the index and does not come to an end."""
    with contextlib.closing(sqlite3.connect(directory / "index.sqlite3")) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_a_full_disk_stops_no_start_and_is_told(tmp_path: Path) -> None:
    rows = make_rows(2)
    with no_room():
        disk = make_disk(tmp_path)
        assert disk.counters.last_error
        assert not disk.save(rows[0], arrays_of(rows[0])).is_persisted
    assert disk.save(rows[0], arrays_of(rows[0])).is_persisted
    assert not disk.counters.hindrance
    assert disk.load(rows[0].record, rows[0].tokens) is not None
    disk.close()
    disk = make_disk(tmp_path)
    assert not disk.index.take_rows()
    assert disk.save(rows[1], arrays_of(rows[1])).is_persisted


@pytest.mark.parametrize("is_closed", [True, False], ids=["index", "log of the index"])
@pytest.mark.parametrize("is_spoilt", [True, False], ids=["one spoilt", "all well"])
def test_what_is_stored_outlives_a_start_on_a_full_disk(
    tmp_path: Path, is_closed: bool, is_spoilt: bool
) -> None:
    first, *kept, late = make_rows(5)
    before = make_disk(tmp_path)
    before.save(first, arrays_of(first))
    if is_spoilt:
        flip_in_index(tmp_path, "tokens", 0)
    else:
        kept.insert(0, first)
    for row in kept:
        before.save(row, arrays_of(row))
    if is_closed:
        before.close()
    with no_room():
        disk = make_disk(tmp_path)
        assert [one.record for one in disk.index.take_rows()] == [one.record for one in kept]
        assert all(disk.load(one.record, one.tokens) is not None for one in kept)
        assert not disk.save(late, arrays_of(late)).is_persisted
        while not disk.sweep():
            pass
    assert disk.save(late, arrays_of(late)).is_persisted
    disk.close()
    before.close()
    rows = make_disk(tmp_path).index.take_rows()
    assert [one.record for one in rows] == [*(one.record for one in kept), late.record]


def test_an_index_that_another_program_holds_stops_neither_start_nor_use(tmp_path: Path) -> None:
    rows = make_rows(2)
    disk = make_disk(tmp_path)
    disk.save(rows[0], arrays_of(rows[0]))
    with locked(tmp_path):
        started = time.monotonic()
        assert not disk.save(rows[1], arrays_of(rows[1])).is_persisted
        assert time.monotonic() - started < 8 * LOCKED_SECONDS
        disk.close()
        disk = make_disk(tmp_path)
        assert disk.load(rows[0].record, rows[0].tokens) is not None
    assert disk.save(rows[1], arrays_of(rows[1])).is_persisted
    disk.close()
    kept = [one.record for one in make_disk(tmp_path).index.take_rows()]
    assert kept == [rows[0].record, rows[1].record]


def test_opening_ten_thousand_records_takes_less_than_a_second(tmp_path: Path) -> None:
    index = DiskIndex(tmp_path / "index.sqlite3")
    for row in make_rows(2500):
        index.add(row)
    index.close()
    started = time.thread_time()
    assert len(DiskIndex(tmp_path / "index.sqlite3").take_rows()) == 2500
    assert time.thread_time() - started < 0.25


def test_what_is_published_leaves_the_disk_last(tmp_path: Path) -> None:
    small = DiskLimits(budget_bytes=12_000, free_floor_bytes=0, daily_write_bytes=1 << 40)
    disk = make_disk(tmp_path, limits=small)
    published, *others = make_rows(4)
    owner = owner_name(OwnerKind.PUBLICATION, "rules")
    published = dataclasses.replace(published, owners=frozenset([owner]))
    for row in (published, *others):
        disk.save(row, arrays_of(row))
    assert disk.load(published.record, published.tokens) is not None

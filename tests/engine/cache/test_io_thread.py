"""The cache's thread: what goes first, what a full queue drops, what it outlives, when it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from engine.cache.disk_index import Row
from engine.cache.disk_tier import DiskTier
from engine.cache.files import RealFiles
from engine.cache.io_thread import (
    HELD_SHARE,
    CacheIO,
    Restored,
    Result,
    Saved,
    Wanted,
)
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.cache.record import Readout
from engine.cache.report import cache_status
from engine.core.blocks import BLOCK_TOKENS
from tests.waiting import wait_until

from .toys import (
    CONTENTS,
    PAYLOAD_BYTES,
    arrays_of,
    compute,
    make_disk,
    make_rows,
    query,
    readout_of,
    record_files,
    tenant,
)

PROMPT = list(range(1, 6 * BLOCK_TOKENS + 1))
FAR = 1e9  # a deadline


class StuckFiles(RealFiles):
    """Writing waits until it is let go; `done` is what was begun, in order."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.done: list[str] = []

    def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self.done.append("write")
        assert self.go.wait(60)
        super().write_new(path, pieces)

    def read(self, path: Path) -> bytes:
        self.done.append("read")
        return super().read(path)


@pytest.fixture
def files() -> Iterator[StuckFiles]:
    files = StuckFiles()
    yield files
    files.go.set()


def make_io(directory: Path, files: RealFiles, *, max_queued_bytes: int = 1 << 30) -> CacheIO:
    return CacheIO(make_disk(directory, files=files), max_queued_bytes=max_queued_bytes)


def wanted(*rows: Row) -> list[Wanted]:
    return [Wanted(row.record, row.tokens) for row in rows]


def results_of(io: CacheIO) -> list[Result]:
    wait_until(lambda: io.is_idle)
    return io.take_results()


def test_what_a_full_queue_drops_is_counted_and_offered_again(
    tmp_path: Path, files: StuckFiles
) -> None:
    io = make_io(tmp_path, files, max_queued_bytes=3 * BLOCK_TOKENS * 4)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    asked = query(PROMPT)
    compute(cache, asked)
    cache.persist(asked)
    counted = cache.statistics
    assert (counted.num_saved, counted.num_dropped, io.queued_bytes) == (6, 3, 3 * 1024)
    files.go.set()
    for num_files in (3, 6):
        wait_until(lambda: io.is_idle)
        assert not cache.take_fetched() and len(record_files(tmp_path)) == num_files
        cache.persist(asked)
    assert (counted.num_saved, counted.num_persisted, counted.num_dropped) == (9, 6, 3)
    assert io.queued_bytes == 0
    assert io.close(wait_seconds=10)


def test_what_could_not_be_handed_over_is_not_counted_as_waiting(tmp_path: Path) -> None:
    def fail(content: bytes) -> Readout:
        raise MemoryError

    io = make_io(tmp_path, RealFiles())
    contents = CONTENTS._replace(dump=fail)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=contents)
    compute(cache, query(PROMPT))
    with pytest.raises(MemoryError):
        cache.persist(query(PROMPT))
    status = cache_status(cache).disk
    assert status is not None and (status.num_queued, status.queued_bytes) == (0, 0)
    assert io.close(wait_seconds=10)


def test_what_somebody_waits_for_goes_before_what_is_to_be_written(
    tmp_path: Path, files: StuckFiles
) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    known, *others = make_rows(4)
    assert io.save(known, readout_of(arrays_of(known)))
    wait_until(lambda: io.is_idle)
    files.go.clear()
    files.done.clear()
    for row in others:
        io.save(row, readout_of(arrays_of(row)))
    wait_until(lambda: bool(files.done))
    io.restore("r", wanted(known), deadline_at=FAR)
    files.go.set()
    results_of(io)
    assert files.done == ["write", "read", "write", "write"]
    assert io.close(wait_seconds=10)


def test_nobody_gets_what_comes_after_the_deadline_or_a_cancel(
    tmp_path: Path, files: StuckFiles
) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    rows = make_rows(3)
    for row in rows:
        io.save(row, readout_of(arrays_of(row)))
    results_of(io)
    files.done.clear()
    with held(io):
        io.restore("late", wanted(*rows), deadline_at=time.monotonic() - 1)
        io.restore("cancelled", wanted(*rows), deadline_at=FAR)
        io.cancel("cancelled")
    ended = [one for one in results_of(io) if isinstance(one, Restored)]
    assert [(one.request_id, one.num_records, one.missing) for one in ended] == [
        ("late", 0, ()),
        ("cancelled", 0, ()),
    ]
    assert not files.done
    io.restore("cancelled", wanted(*rows), deadline_at=FAR)  # its name may come again
    assert results_of(io)[-1].num_records == 3  # type: ignore[union-attr]
    assert io.close(wait_seconds=10)


@contextlib.contextmanager
def held(io: CacheIO) -> Iterator[None]:
    """Its thread does nothing meanwhile."""
    began, go = threading.Event(), threading.Event()
    io.maintain(lambda disk: (began.set(), go.wait(60)))
    assert began.wait(60)
    yield
    go.set()


def test_while_requests_run_nothing_is_written_but_what_they_wait_for_is_read(
    tmp_path: Path, files: StuckFiles
) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    known, *others = make_rows(3)
    io.save(known, readout_of(arrays_of(known)))
    results_of(io)
    io.hold_saves(True)
    for row in others:
        io.save(row, readout_of(arrays_of(row)))
    io.restore("r", wanted(known), deadline_at=FAR)
    wait_until(lambda: any(isinstance(one, Restored) for one in io.take_results()))
    assert files.done == ["write", "read"] and io.queued_bytes == 2 * PAYLOAD_BYTES
    io.hold_saves(False)
    assert len(results_of(io)) == 2 and files.done[2:] == ["write", "write"]
    assert io.close(wait_seconds=10)


def test_nothing_is_held_beyond_a_part_of_the_queue(tmp_path: Path, files: StuckFiles) -> None:
    files.go.set()
    room = int(2 * PAYLOAD_BYTES / HELD_SHARE)
    disk = make_disk(tmp_path, files=files)
    io = CacheIO(disk, max_queued_bytes=room, held_seconds=threading.TIMEOUT_MAX / 2)
    io.hold_saves(True)
    for row in make_rows(3):
        io.save(row, readout_of(arrays_of(row)))
    wait_until(lambda: io.queued_bytes == 2 * PAYLOAD_BYTES)
    with held(io):
        assert files.done == ["write"]
    assert io.close(wait_seconds=10)


def test_nothing_is_held_longer_than_some_seconds(tmp_path: Path, files: StuckFiles) -> None:
    files.go.set()
    disk = make_disk(tmp_path, files=files)
    io = CacheIO(disk, max_queued_bytes=1 << 30, held_seconds=0.2)
    io.hold_saves(True)
    started = time.monotonic()
    (row,) = make_rows(1)
    io.save(row, readout_of(arrays_of(row)))
    wait_until(lambda: io.is_idle)
    assert files.done == ["write"] and time.monotonic() - started >= 0.2
    assert io.close(wait_seconds=10)


def test_a_hurry_writes_what_is_held_and_holds_what_comes_later(
    tmp_path: Path, files: StuckFiles
) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    first, second, later = make_rows(3)
    io.hold_saves(True)
    for row in (first, second):
        io.save(row, readout_of(arrays_of(row)))
    io.hurry()
    results_of(io)
    io.save(later, readout_of(arrays_of(later)))
    with held(io):
        assert files.done == ["write"] * 2 and io.queued_bytes == PAYLOAD_BYTES
    assert io.close(wait_seconds=10)
    assert len(record_files(tmp_path)) == 3  # closing holds nothing


def test_what_is_deleted_while_it_waits_is_never_written(tmp_path: Path, files: StuckFiles) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    cache.hold_writes(True)
    asked = {who: query([number + 1, *PROMPT], of=who) for number, who in enumerate(("ann", "bob"))}
    for one in asked.values():
        compute(cache, one)
        cache.persist(one)
    cache.forget_owner(tenant("ann"))
    num_records = cache.statistics.num_saved // 2
    assert cache.statistics.num_dropped == num_records
    cache.hold_writes(False)
    wait_until(lambda: io.is_idle)
    assert not cache.take_fetched()
    assert cache.statistics.num_persisted == num_records
    assert files.done == ["write"] * num_records and io.queued_bytes == 0
    cache.clear("toy")
    cache.hold_writes(True)
    compute(cache, asked["bob"])
    cache.persist(asked["bob"])
    cache.clear("toy")
    assert io.queued_bytes == 0 and io.close(wait_seconds=10)
    assert not record_files(tmp_path)


@pytest.mark.parametrize("is_persisted_before", [False, True])
def test_what_is_kept_again_while_its_former_file_is_written_is_written_again(
    tmp_path: Path, files: StuckFiles, is_persisted_before: bool
) -> None:
    io = make_io(tmp_path, files)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    asked = query(PROMPT)
    compute(cache, asked)
    cache.persist(asked)
    wait_until(lambda: bool(files.done))
    cache.clear("toy")
    compute(cache, asked)
    if is_persisted_before:
        cache.persist(asked)
    files.go.set()
    for _ in range(2):
        wait_until(lambda: io.is_idle)
        cache.take_fetched()
        cache.persist(asked)
    known = {node.record(kind).file_name for node in cache.nodes for kind in node.on_disk}
    assert {path.name for path in record_files(tmp_path)} == known and len(known) == 6
    counted = cache.statistics
    assert counted.num_saved == counted.num_persisted + counted.num_dropped
    assert sum(cache.nodes.disk_bytes.values()) == io.disk.used_bytes
    assert io.close(wait_seconds=10)


def test_a_former_save_does_not_stand_for_one_that_fails(tmp_path: Path, files: StuckFiles) -> None:
    io = make_io(tmp_path, files)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    asked = query(PROMPT)
    for _ in range(2):
        compute(cache, asked)
        cache.persist(asked)
        wait_until(lambda: bool(files.done))
        if cache.statistics.num_saved == 6:
            cache.clear("toy")
    io.disk.limits = dataclasses.replace(io.disk.limits, daily_write_bytes=0)
    files.go.set()
    wait_until(lambda: io.is_idle)
    cache.take_fetched()
    assert not record_files(tmp_path) and not any(node.on_disk for node in cache.nodes)
    assert io.close(wait_seconds=10)


def test_what_leaves_memory_while_it_waits_is_written_at_once(
    tmp_path: Path, files: StuckFiles
) -> None:
    files.go.set()
    io = make_io(tmp_path, files)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    cache.hold_writes(True)
    asked = query(PROMPT)
    compute(cache, asked)
    cache.persist(asked)
    with held(io):
        assert not files.done
    cache.shrink(0)
    wait_until(lambda: io.is_idle)
    assert len(record_files(tmp_path)) == 6
    assert not cache.take_fetched() and cache.plan(query([*PROMPT, 7])).from_disk
    assert io.close(wait_seconds=10)


def test_a_job_that_fails_ends_neither_the_thread_nor_the_count(tmp_path: Path) -> None:
    class Broken(RealFiles):
        def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
            raise ZeroDivisionError

    io = make_io(tmp_path, Broken())
    (row,) = make_rows(1)
    io.maintain(_raise)
    assert io.save(row, readout_of(arrays_of(row)))
    (saved,) = results_of(io)
    assert isinstance(saved, Saved) and not saved.is_persisted
    assert io.queued_bytes == 0
    assert io.close(wait_seconds=10)


def _raise(disk: DiskTier) -> None:
    raise ZeroDivisionError


def test_closing_writes_what_is_queued_and_takes_nothing_more(
    tmp_path: Path, files: StuckFiles
) -> None:
    io = make_io(tmp_path, files)
    *rows, late = make_rows(5)
    for row in rows:
        io.save(row, readout_of(arrays_of(row)))
    wait_until(lambda: bool(files.done))
    assert io.queued_bytes == 4 * PAYLOAD_BYTES
    assert not io.close(wait_seconds=0.02)  # a stuck disk holds nobody up
    assert not io.save(late, readout_of(arrays_of(late)))
    files.go.set()
    assert io.close(wait_seconds=10)
    assert len(record_files(tmp_path)) == len(rows)

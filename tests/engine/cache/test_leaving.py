"""What leaves the tiers first: a prompt's end, so that what stays of it is of use."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS
from engine.wire import CacheTier
from tests.waiting import wait_until

from .toys import (
    CONTENTS,
    UNLIMITED,
    arrays_of,
    compute,
    make_cache,
    make_disk,
    make_rows,
    query,
    record_files,
    tenant,
)

BLOCK_BYTES = 4 * BLOCK_TOKENS  # of a toy's payload
PROMPT = list(range(1, 6 * BLOCK_TOKENS + 1))
ASKED = query([*PROMPT, 7])


@pytest.mark.parametrize("is_used", [False, True])
def test_of_a_prompt_in_memory_the_end_leaves_first(is_used: bool) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    if is_used:
        cache.used(ASKED, cache.plan(ASKED), request_id="r")
        cache.release("r")
    for num_blocks in range(6, -1, -1):
        cache.shrink(num_blocks * BLOCK_BYTES)
        assert cache.plan(ASKED).num_tokens == num_blocks * BLOCK_TOKENS


def test_of_a_prompt_that_the_disk_has_no_room_for_the_beginning_stays(tmp_path: Path) -> None:
    limits = dataclasses.replace(UNLIMITED, budget_bytes=11_000)
    io = CacheIO(make_disk(tmp_path, limits=limits), max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    wait_until(lambda: io.is_idle)
    assert io.close(wait_seconds=10)
    assert len(record_files(tmp_path)) == 3
    rows = make_disk(tmp_path).index.take_rows()
    again = PrefixCache(
        MemoryTier(budget_bytes=0),
        None,
        contents=CONTENTS,
        rows=rows,
    )
    assert again.plan(ASKED).num_tokens >= 2 * BLOCK_TOKENS


@pytest.mark.parametrize("restarts", [False, True])
def test_after_a_clock_that_was_ahead_what_was_used_last_leaves_the_disk_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    prompts = [range(first, first + 2 * BLOCK_TOKENS) for first in range(1, 60_000, 10_000)]
    limits = dataclasses.replace(UNLIMITED, budget_bytes=16_000)  # two of them
    ahead = time.time() + 1e8

    def begin() -> tuple[CacheIO, PrefixCache]:
        disk = make_disk(tmp_path, limits=limits)
        rows = disk.index.take_rows()
        io = CacheIO(disk, max_queued_bytes=1 << 30)
        return io, PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS, rows=rows)

    def use(prompt: range) -> None:
        compute(cache, query(prompt))
        cache.persist(query(prompt))
        wait_until(lambda: io.is_idle)
        cache.take_fetched()

    io, cache = begin()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: ahead)
        for prompt in prompts[:3]:
            use(prompt)
    if restarts:
        assert io.close(wait_seconds=10)
        io, cache = begin()
    for prompt in prompts[3:]:
        use(prompt)
    assert io.close(wait_seconds=10)
    again = PrefixCache(
        MemoryTier(budget_bytes=0),
        None,
        contents=CONTENTS,
        rows=make_disk(tmp_path, limits=limits).index.take_rows(),
    )
    kept = [again.plan(query([*prompt, 7])).num_tokens for prompt in prompts]
    assert kept == [0, 0, 0, 0, 2 * BLOCK_TOKENS, 2 * BLOCK_TOKENS]


def test_of_a_prompt_used_on_disk_the_end_leaves_first(tmp_path: Path) -> None:
    disk = make_disk(tmp_path, limits=dataclasses.replace(UNLIMITED, budget_bytes=12_000))
    beginning, end, newest = make_rows(3)
    for row in (beginning, end):
        disk.save(row, arrays_of(row))
    disk.touch([beginning.record, end.record], 1e9)
    assert disk.save(newest, arrays_of(newest)).evicted == (end.record,)


@pytest.mark.parametrize(("by", "num_records"), [("ann", 3), ("bob", 4)])
def test_a_tail_leaves_when_its_owner_has_the_whole_block(by: str, num_records: int) -> None:
    """Somebody else's longer block is of no use to who owns the tail."""
    cache = make_cache()
    compute(cache, query(PROMPT[:600], of="ann"))
    compute(cache, query(PROMPT[:768], of=by))
    assert len(cache.memory) == num_records
    assert cache.plan(query([*PROMPT[:600], 7], of="ann")).num_tokens == 600


@pytest.fixture
def on_its_way(tmp_path: Path) -> Iterator[tuple[PrefixCache, threading.Event]]:
    """A prompt that memory has lost before the disk has it; the event lets the disk go on."""
    io = CacheIO(make_disk(tmp_path), max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    may_write = threading.Event()
    io.maintain(lambda _: may_write.wait())
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    cache.shrink(0)
    yield cache, may_write
    may_write.set()
    assert io.close(wait_seconds=10)


def wait_for_disk(cache: PrefixCache) -> None:
    io = cache.io
    assert io is not None
    wait_until(lambda: io.is_idle)
    cache.take_fetched()


def test_what_memory_loses_on_its_way_to_the_disk_is_found_there(
    on_its_way: tuple[PrefixCache, threading.Event],
) -> None:
    cache, may_write = on_its_way
    assert cache.plan(ASKED).is_cold
    may_write.set()
    wait_for_disk(cache)
    assert cache.plan(ASKED).num_tokens == len(PROMPT)


@pytest.mark.parametrize(
    "remove",
    [
        lambda cache: cache.forget_owner(tenant("ann")),
        lambda cache: cache.clear("toy"),
        lambda cache: cache.clear("toy", tiers=(CacheTier.DISK,)),
    ],
)
def test_what_is_removed_on_its_way_to_the_disk_never_arrives(
    on_its_way: tuple[PrefixCache, threading.Event],
    remove: Callable[[PrefixCache], object],
    tmp_path: Path,
) -> None:
    cache, may_write = on_its_way
    remove(cache)
    assert not list(cache.nodes)
    may_write.set()
    wait_for_disk(cache)
    wait_for_disk(cache)
    assert not record_files(tmp_path) and not list(cache.nodes)


def test_what_the_disk_does_not_take_is_forgotten(tmp_path: Path) -> None:
    limits = dataclasses.replace(UNLIMITED, daily_write_bytes=0)
    io = CacheIO(make_disk(tmp_path, limits=limits), max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    cache.shrink(0)
    wait_for_disk(cache)
    assert not list(cache.nodes)
    assert io.close(wait_seconds=10)

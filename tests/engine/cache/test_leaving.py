"""What leaves the tiers first: a prompt's end, so that what stays of it is of use."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS
from tests.waiting import wait_until

from .toys import (
    UNLIMITED,
    arrays_of,
    compute,
    dump,
    make_cache,
    make_disk,
    make_rows,
    query,
    record_files,
    revive,
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
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, dump=dump, revive=revive)
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    wait_until(lambda: io.is_idle)
    assert io.close(wait_seconds=10)
    assert len(record_files(tmp_path)) == 3
    rows = make_disk(tmp_path).index.take_rows()
    again = PrefixCache(MemoryTier(budget_bytes=0), None, dump=dump, revive=revive, rows=rows)
    assert again.plan(ASKED).num_tokens >= 2 * BLOCK_TOKENS


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

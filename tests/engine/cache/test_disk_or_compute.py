"""What is on disk is read only where computing it takes longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.plan import Miss
from engine.cache.prefix import PrefixCache

from .toys import compute, dump, make_disk, query, revive

PROMPT = list(range(1, 1025))
WAIT_SECONDS = 10.0


def cache_on(directory: Path) -> tuple[PrefixCache, CacheIO]:
    disk = make_disk(directory)
    rows = disk.index.take_rows()
    io = CacheIO(disk, max_queued_bytes=1 << 30)
    memory = MemoryTier(budget_bytes=1 << 40)
    return PrefixCache(memory, io, dump=dump, revive=revive, rows=rows), io


def attention_seconds(num_tokens: int) -> float:
    """Of a prompt of this many; all of PROMPT takes a second, its second half three quarters."""
    return (num_tokens / len(PROMPT)) ** 2


@pytest.mark.parametrize(
    ("read_seconds", "num_tokens", "miss"), [(0.7, 1023, Miss.NONE), (0.8, 512, Miss.SLOWER)]
)
def test_the_rest_of_what_memory_has_is_compared_as_what_it_is(
    tmp_path: Path, read_seconds: float, num_tokens: int, miss: Miss
) -> None:
    """The second half of a prompt takes longer to compute than its first."""
    before, io = cache_on(tmp_path)
    compute(before, query(PROMPT))
    before.persist(query(PROMPT))
    io.close(wait_seconds=WAIT_SECONDS)
    cache, io = cache_on(tmp_path)
    try:
        compute(cache, query(PROMPT[:512]))
        num_records = len(cache.plan(query(PROMPT)).from_disk)
        cache.costs.record_seconds = read_seconds / num_records
        plan = cache.plan(query(PROMPT), prefill_seconds=attention_seconds)
        assert (plan.num_tokens, plan.miss) == (num_tokens, miss)
    finally:
        io.close(wait_seconds=WAIT_SECONDS)

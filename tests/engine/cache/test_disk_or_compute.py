"""What is on disk is read only where computing it takes longer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.plan import Miss, Needs, Query
from engine.cache.prefix import PrefixCache

from .toys import (
    ATTENTION,
    CONTENTS,
    HYBRID,
    RECURRENT,
    compute,
    make_disk,
    query,
    restored_tokens,
)

PROMPT = list(range(1, 1025))
WAIT_SECONDS = 10.0


def cache_on(directory: Path) -> tuple[PrefixCache, CacheIO]:
    disk = make_disk(directory)
    rows = disk.index.take_rows()
    io = CacheIO(disk, max_queued_bytes=1 << 30)
    memory = MemoryTier(budget_bytes=1 << 40)
    return PrefixCache(memory, io, contents=CONTENTS, rows=rows), io


@contextlib.contextmanager
def restarted_with(directory: Path, on_disk: Sequence[Query]) -> Iterator[PrefixCache]:
    """A cache that begins with these prompts on disk and nothing in memory."""
    before, io = cache_on(directory)
    for asked in on_disk:
        compute(before, asked)
        before.persist(asked)
        _settle(before)
    io.close(wait_seconds=WAIT_SECONDS)
    cache, io = cache_on(directory)
    try:
        yield cache
    finally:
        io.close(wait_seconds=WAIT_SECONDS)


def _settle(cache: PrefixCache) -> None:
    """Until the cache knows that all it handed over is on disk."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    statistics = cache.statistics
    cache.hurry_writes()
    while statistics.num_persisted < statistics.num_saved:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)
        cache.take_fetched()


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
    with restarted_with(tmp_path, [query(PROMPT)]) as cache:
        compute(cache, query(PROMPT[:512]))
        num_records = len(cache.plan(query(PROMPT)).from_disk)
        cache.costs.record_seconds = read_seconds / num_records
        plan = cache.plan(query(PROMPT), prefill_seconds=attention_seconds)
        assert (plan.num_tokens, plan.miss) == (num_tokens, miss)


def test_a_disk_that_was_slow_once_is_read_again(tmp_path: Path) -> None:
    """Otherwise nobody would ever see that it is quick."""
    with restarted_with(tmp_path, [query(PROMPT)]) as cache:
        cache.costs.record_seconds = 1.5 / len(cache.plan(query(PROMPT)).from_disk)
        misses = [
            cache.plan(query(PROMPT), prefill_seconds=attention_seconds).miss for _ in range(100)
        ]
    assert misses[0] is Miss.SLOWER
    assert misses[-1] is Miss.NONE
    assert 20 <= misses.count(Miss.SLOWER) <= 80


@pytest.mark.parametrize("needs", [HYBRID, RECURRENT])
@pytest.mark.parametrize("is_first", [True, False])
def test_after_a_restart_too_where_a_prompt_ended_is_its_senders_alone(
    tmp_path: Path, needs: Needs, is_first: bool
) -> None:
    ended = query(PROMPT[:256], of="ann", needs=needs)
    passed = query(PROMPT[:900], of="bob", needs=needs)
    with restarted_with(tmp_path, [ended, passed] if is_first else [passed, ended]) as cache:
        for person, num_tokens in (("ann", 256), ("bob", 0)):
            again = query([*PROMPT[:300], 7, 8, 9], of=person, needs=needs)
            assert cache.plan(again).num_tokens == num_tokens
        assert cache.plan(query(PROMPT, of="bob", needs=needs)).num_tokens == 900


@pytest.mark.parametrize("needs", [ATTENTION, HYBRID])
def test_a_longer_one_on_disk_hides_no_shorter_one_in_memory(tmp_path: Path, needs: Needs) -> None:
    with restarted_with(tmp_path, [query(PROMPT[:200], needs=needs)]) as cache:
        compute(cache, query(PROMPT[:90], needs=needs))
        asked = query(PROMPT, needs=needs)
        assert cache.plan(asked).num_tokens == 200
        in_memory = cache.plan_in_memory(asked)
        assert in_memory.num_tokens == 90
        restored_tokens(cache, asked, in_memory)


def test_a_block_on_disk_hides_no_part_of_it_in_memory(tmp_path: Path) -> None:
    with restarted_with(tmp_path, [query(PROMPT[:512])]) as cache:
        compute(cache, query(PROMPT[:256]))
        compute(cache, query([*PROMPT[:400], 7, 8, 9]))
        assert cache.plan(query(PROMPT)).num_tokens == 512
        assert cache.plan_in_memory(query(PROMPT)).num_tokens == 400


def test_among_many_on_disk_that_agree_as_long_the_one_in_memory_is_used(tmp_path: Path) -> None:
    on_disk = [query([*PROMPT[:200], 2 * number + 5000]) for number in range(200)]
    with restarted_with(tmp_path, on_disk) as cache:
        compute(cache, query([*PROMPT[:200], 5399]))
        plan = cache.plan(query([*PROMPT[:200], 5001, 7]), prefill_seconds=attention_seconds)
        assert (plan.num_tokens, plan.from_disk, plan.miss) == (200, (), Miss.UNKNOWN)

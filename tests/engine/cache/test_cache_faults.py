"""What a device does not take, of what comes from disk or is copied, is computed again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cache.captures import Contents
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS
from tests.waiting import wait_until

from .toys import CONTENTS, compute, make_disk, query, restored_tokens

PROMPT = list(range(1, 4 * BLOCK_TOKENS + 1))
ASKED = query([*PROMPT, 7])


def fail(_: Any) -> Any:
    raise RuntimeError("[malloc] Unable to allocate")


REVIVES_NOT = CONTENTS._replace(revive=fail)
COMPUTES_NOT = CONTENTS._replace(compute=fail)


def open_cache(folder: Path, contents: Contents) -> PrefixCache:
    disk = make_disk(folder)
    io = CacheIO(disk, max_queued_bytes=1 << 30)
    memory = MemoryTier(budget_bytes=1 << 30)
    return PrefixCache(memory, io, contents=contents, rows=disk.index.take_rows())


def close(cache: PrefixCache) -> None:
    assert cache.io is not None and cache.io.close(wait_seconds=10)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Path]:
    """The folder of an engine that has the prompt on disk."""
    cache = open_cache(tmp_path, CONTENTS)
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    close(cache)
    yield tmp_path


def num_faults(cache: PrefixCache) -> int:
    return cache.statistics.models["toy"].misses["fault"]


@pytest.mark.parametrize("contents", [REVIVES_NOT, COMPUTES_NOT])
def test_what_cannot_be_brought_from_disk_is_a_counted_miss(
    stored: Path, contents: Contents
) -> None:
    cache = open_cache(stored, contents)
    cache.fetch("r", cache.plan(ASKED), deadline_at=time.monotonic() + 10)
    ended: list[str] = []
    wait_until(lambda: bool(ended.extend(cache.take_fetched()) or ended))
    assert ended == ["r"] and num_faults(cache) > 0
    assert len(cache.memory) == 0 and cache.plan_in_memory(ASKED).is_cold
    cache.release("r")
    close(cache)
    again = open_cache(stored, CONTENTS)  # what it is on disk was not at fault
    assert again.plan(ASKED).num_tokens == len(PROMPT)
    close(again)


def test_what_else_came_with_it_counts(stored: Path) -> None:
    held = [True, False, True, True]
    cache = open_cache(
        stored,
        CONTENTS._replace(revive=lambda it: CONTENTS.revive(it) if held.pop() else fail(it)),
    )
    cache.fetch("r", cache.plan(ASKED), deadline_at=time.monotonic() + 10)
    ended: list[str] = []
    wait_until(lambda: bool(ended.extend(cache.take_fetched()) or ended))
    plan = cache.plan_in_memory(ASKED)
    assert plan.num_tokens == 2 * BLOCK_TOKENS and num_faults(cache) == 1
    restored_tokens(cache, ASKED, plan)
    close(cache)


def test_a_copy_that_cannot_be_computed_is_not_kept(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, COMPUTES_NOT)
    compute(cache, query(PROMPT))
    cache.persist(query(PROMPT))
    assert len(cache.memory) == 0 and not list(cache.nodes) and num_faults(cache) == 1
    close(cache)

"""What is copied for the prefix cache takes memory only when the cache has made room for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from engine.cache.captures import Captured
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Query
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, root_key, token_bytes
from engine.model import caches as row_caches
from engine.model import snapshots
from tests.engine.model.rig import loaded

MODEL = "small-llama"
NUM_BLOCKS = 4


@pytest.fixture
def row() -> Any:
    model = loaded(MODEL).model
    row = row_caches.new_caches(model)
    model(mx.ones((1, NUM_BLOCKS * BLOCK_TOKENS), mx.uint32), cache=row)
    row_caches.evaluate(row)
    return row


@pytest.mark.parametrize("fitting_blocks", [0, 1, 2])
def test_a_full_cache_lets_go_of_a_block_before_another_is_copied(
    row: Any, fitting_blocks: int
) -> None:
    block_bytes = row_caches.num_bytes(row) // NUM_BLOCKS
    tier = MemoryTier(budget_bytes=fitting_blocks * block_bytes)
    cache = PrefixCache(tier, None, contents=snapshots.CONTENTS)
    mx.synchronize()
    before_bytes = mx.get_active_memory()
    mx.reset_peak_memory()
    for asked, captured in _blocks(row):
        cache.store(asked, [captured])
        del captured
        mx.synchronize()
    assert tier.used_bytes == fitting_blocks * block_bytes
    taken_bytes = mx.get_peak_memory() - before_bytes
    assert taken_bytes <= (fitting_blocks + 0.1) * block_bytes
    held_bytes = mx.get_active_memory() - before_bytes
    assert held_bytes >= fitting_blocks * block_bytes  # copies, not what they would be made of


def _blocks(row: Any) -> Iterator[tuple[Query, Captured]]:
    needs = snapshots.needs_of(row)
    assert needs is not None
    for number in range(NUM_BLOCKS):  # each of a prompt of its own
        query = Query(
            model=MODEL,
            chain=Chain(root_key({}), token_bytes(range(number, number + BLOCK_TOKENS))),
            num_tokens=BLOCK_TOKENS,
            owners=frozenset([owner_name(OwnerKind.PERSON, "ann")]),
            needs=needs,
        )
        (span,) = query.spans()
        (content,) = snapshots.capture_slices(
            row, [(number * BLOCK_TOKENS, (number + 1) * BLOCK_TOKENS)]
        )
        yield query, Captured(span, snapshots.payload(content), None)

"""What is copied for the prefix cache takes memory only when the cache has made room for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from engine.cache.captures import Captured, Payload
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Miss, Query
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, root_key, token_bytes
from engine.model import caches as row_caches
from engine.model import snapshots
from tests.engine.devices import needs_exact_memory
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


@needs_exact_memory
@pytest.mark.parametrize("fitting_blocks", [1, 2, 4])
def test_no_more_is_stacked_than_is_kept(row: Any, fitting_blocks: int) -> None:
    """A whole prompt at once, as a device has it that copies are stacked for."""
    block_bytes = row_caches.num_bytes(row) // NUM_BLOCKS
    tier = MemoryTier(budget_bytes=fitting_blocks * block_bytes)
    cache = PrefixCache(tier, None, contents=snapshots.CONTENTS)
    asked = _query(range(NUM_BLOCKS * BLOCK_TOKENS), row)
    spans = [(span.start, span.stop) for span in asked.spans()]
    copies = snapshots.capture_slices(row, spans, stacks=True, most_bytes=2 * block_bytes)
    mx.synchronize()
    before_bytes = mx.get_active_memory()
    mx.reset_peak_memory()
    cache.store(asked, [Captured(*one, None) for one in zip(asked.spans(), copies, strict=True)])
    mx.synchronize()
    assert tier.used_bytes == fitting_blocks * block_bytes
    stacked_blocks = min(2, fitting_blocks)
    taken_bytes = mx.get_peak_memory() - before_bytes
    assert taken_bytes <= (fitting_blocks + stacked_blocks + 0.3) * block_bytes


def test_of_what_cannot_be_computed_nothing_is_kept(
    row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = MemoryTier(budget_bytes=1 << 30)
    cache = PrefixCache(tier, None, contents=snapshots.CONTENTS)

    def fail(arrays: object) -> None:
        raise MemoryError

    blocks = list(_blocks(row))
    with monkeypatch.context() as patch:
        patch.setattr(mx, "async_eval", fail)
        cache.store(blocks[0][0], [blocks[0][1]])
    assert [one.misses for one in cache.statistics.models.values()] == [{Miss.FAULT.value: 1}]
    assert not len(tier)
    assert cache.plan(blocks[0][0].behind()).is_cold
    cache.store(blocks[1][0], [blocks[1][1]])
    assert len(tier) == 1


def test_what_fails_on_the_way_leaves_nothing_uncomputed(
    row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold what it is cut out of."""
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), None, contents=snapshots.CONTENTS)
    asked = _query(range(2 * BLOCK_TOKENS), row)
    first, second = asked.spans()
    (copy,) = snapshots.capture_slices(row, [(0, BLOCK_TOKENS)])
    broken: Any = Captured(first, Payload(None, "many"), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        cache.store(asked, [broken, Captured(second, copy, None)])
    assert copy.content.arrays
    assert copy.content.cut is None


def _blocks(row: Any) -> Iterator[tuple[Query, Captured]]:
    for number in range(NUM_BLOCKS):  # each of a prompt of its own
        query = _query(range(number, number + BLOCK_TOKENS), row)
        (span,) = query.spans()
        (copy,) = snapshots.capture_slices(
            row, [(number * BLOCK_TOKENS, (number + 1) * BLOCK_TOKENS)]
        )
        yield query, Captured(span, copy, None)


def _query(tokens: range, row: Any) -> Query:
    needs = snapshots.needs_of(row)
    assert needs is not None
    return Query(
        model=MODEL,
        chain=Chain(root_key({}), token_bytes(tokens)),
        num_tokens=len(tokens),
        owners=frozenset([owner_name(OwnerKind.PERSON, "ann")]),
        needs=needs,
    )

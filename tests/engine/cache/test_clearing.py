"""What is ordered to go takes its turns, and is not used from the order on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cache.clearing import SLICE_NODES
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.prefix import ModelRules, PrefixCache
from engine.core.blocks import BLOCK_TOKENS
from engine.wire import CacheTier
from tests.waiting import wait_until

from .toys import (
    CONTENTS,
    HYBRID,
    Payload,
    compute,
    make_cache,
    make_disk,
    query,
    record_files,
    tenant,
)

NUM_BLOCKS = 2 * SLICE_NODES + 1
PROMPT = list(range(1, NUM_BLOCKS * BLOCK_TOKENS + 1))
ASKED = query([*PROMPT, 7])
PUBLICATION = owner_name(OwnerKind.PUBLICATION, "rules")

ORDERS = pytest.mark.parametrize(
    "order",
    [
        lambda cache: cache.clear("toy"),
        lambda cache: cache.clear("toy", tiers=(CacheTier.MEMORY,)),
        lambda cache: cache.forget_owner(tenant("ann")),
    ],
)


@ORDERS
def test_a_large_order_goes_in_slices_and_nothing_of_it_is_found_meanwhile(
    order: Callable[[PrefixCache], None],
) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    order(cache)
    left = [len(cache.memory)]
    while cache.is_clearing:
        assert cache.plan(ASKED).is_cold
        cache.go_on_clearing()
        left.append(len(cache.memory))
    assert left == [SLICE_NODES + 1, 1, 0]
    compute(cache, query(PROMPT))
    assert cache.plan(ASKED).num_tokens == len(PROMPT)


@ORDERS
def test_what_is_computed_meanwhile_is_not_kept(order: Callable[[PrefixCache], None]) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, needs=HYBRID))
    order(cache)
    new = query([5, *PROMPT[:600]], needs=HYBRID)
    compute(cache, new)
    cache.store_opening(new, Payload(b"logits", 6))
    assert cache.opening(new) is None
    while cache.is_clearing:
        cache.go_on_clearing()
    assert len(cache.memory) == 0 and not list(cache.nodes)


def test_another_model_is_looked_up_and_kept_meanwhile() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    cache.clear("toy")
    other = query(PROMPT[:600], model="other")
    compute(cache, other)
    assert cache.is_clearing and cache.plan(other).num_tokens == 599
    while cache.is_clearing:
        cache.go_on_clearing()
    assert cache.plan(other).num_tokens == 599


def test_a_model_that_shares_no_more_changes_in_slices_and_strangers_find_nothing_at_once() -> None:
    cache = make_cache()
    for name in ("ann", "bob", "cleo"):
        compute(cache, query(PROMPT, of=name))
    cache.set_rules("toy", ModelRules(share_after=None))
    left = [sum(node.is_everybodys for node in cache.nodes)]
    while cache.is_clearing:
        assert cache.plan(query([*PROMPT, 7], of="dan")).is_cold
        assert cache.plan(ASKED).is_cold
        cache.go_on_clearing()
        left.append(sum(node.is_everybodys for node in cache.nodes))
    assert left == [SLICE_NODES + 1, 1, 0]
    assert cache.plan(query([*PROMPT, 7], of="dan")).is_cold
    assert cache.plan(ASKED).num_tokens == len(PROMPT)


def test_a_model_that_few_share_anything_of_changes_at_once() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    compute(cache, query(PROMPT[:600], of="bob"))
    cache.set_rules("toy", ModelRules(share_after=2))
    assert not cache.is_clearing
    assert cache.plan(query(PROMPT, of="dan")).num_tokens == 2 * BLOCK_TOKENS


def test_orders_of_one_turn_share_its_slice() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    compute(cache, query(PROMPT, model="other"))
    before = len(cache.memory)
    for model in ("toy", "other"):
        cache.clear(model)
    assert before - len(cache.memory) == SLICE_NODES


def test_the_disk_has_nothing_of_a_large_order_in_the_end(tmp_path: Path) -> None:
    io = CacheIO(make_disk(tmp_path), max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    compute(cache, query(PROMPT))
    compute(cache, query(PROMPT[:BLOCK_TOKENS], of="bob"))
    cache.persist(query(PROMPT))
    wait_until(lambda: io.is_idle)
    assert len(record_files(tmp_path)) == NUM_BLOCKS
    cache.take_fetched()
    cache.forget_owner(tenant("ann"))
    while cache.is_clearing:
        cache.go_on_clearing()
    wait_until(lambda: io.is_idle)
    assert len(record_files(tmp_path)) == 1 and len(cache.nodes) == 1
    assert io.disk.used_bytes == sum(cache.nodes.disk_bytes.values()) > 0
    (row,) = io.disk.index.oldest(10)
    assert row.owners == {tenant("bob")}
    assert io.close(wait_seconds=10)


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("owner", [tenant("ann"), PUBLICATION], ids=["person", "publication"])
def test_what_waits_to_be_written_is_not_written_as_that_of_who_is_forgotten(
    tmp_path: Path, owner: bytes, is_begun: bool
) -> None:
    """The engine may end before it can put that right."""
    prompt = query(PROMPT[:600], owners=[owner])
    io = CacheIO(make_disk(tmp_path), max_queued_bytes=1 << 30)
    cache = PrefixCache(MemoryTier(budget_bytes=1 << 30), io, contents=CONTENTS)
    cache.hold_writes(True)
    compute(cache, prompt)
    cache.persist(prompt)
    if is_begun:
        cache.hurry_writes()
    compute(cache, query(PROMPT[:600], of="bob"))
    cache.forget_owner(owner)
    assert io.close(wait_seconds=10)
    rows = make_disk(tmp_path).index.take_rows()
    assert not any(owner in row.owners for row in rows)
    assert len(record_files(tmp_path)) == len(rows)
    cache.take_fetched()
    assert cache.plan(query(PROMPT[:600], of="bob")).num_tokens == 599
    statistics = cache.statistics
    assert statistics.num_saved == statistics.num_persisted + statistics.num_dropped

"""The next token's logits after a restored prefix are those after a computed one, in float32."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.cache.captures import Captured
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Needs, Query
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, root_key, token_bytes
from engine.model import snapshots
from engine.model.caches import new_caches
from engine.model.loader import load
from tests.tiny_models import tiny_model_path

KINDS = ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba"]
TOLERANCE = 1e-4  # of the largest logit: sums are taken in another order
ANN = frozenset([owner_name(OwnerKind.PERSON, "ann")])


def words(seed: int, count: int) -> list[int]:
    chooser = random.Random(seed)
    return [chooser.randint(100, 3000) for _ in range(count)]


BLOCK, OTHER = words(1, BLOCK_TOKENS), words(2, BLOCK_TOKENS)
TAIL = words(3, 90)
ONE, TWO, THREE = [*BLOCK, *TAIL], [*BLOCK, *OTHER[:120]], [*BLOCK, *BLOCK]
# name -> (what was computed before, what is asked, at least so much of it is restored)
CASES: dict[str, tuple[list[int], list[int], int]] = {
    "equal": (ONE, ONE, BLOCK_TOKENS),
    "continued": (ONE, [*ONE, *OTHER[:40]], len(ONE)),
    "beginning of a stored one": (TWO, [*BLOCK, *OTHER[:50]], BLOCK_TOKENS),
    "another end inside a block": (TWO, [*BLOCK, *OTHER[:100], *TAIL[:40]], BLOCK_TOKENS),
    "repeated blocks": (THREE, [*BLOCK, *BLOCK, *BLOCK[:40]], 2 * BLOCK_TOKENS),
    "shared middle": (ONE, [*TAIL, *BLOCK], 0),
}


@functools.cache
def model_of(kind: str) -> Any:
    name = "tiny-qwen3" if kind == "quantised" else kind
    *_, last = load(tiny_model_path(name), casts_to_float32=True)
    assert last.loaded is not None
    if kind == "quantised":
        nn.quantize(last.loaded.model, group_size=32, bits=8)
    return last.loaded.model


def query_of(tokens: list[int], needs: Needs) -> Query:
    chain = Chain(root_key({"model": "test"}), token_bytes(tokens))
    return Query(model="test", chain=chain, num_tokens=len(tokens), owners=ANN, needs=needs)


@functools.cache
def _cache_after(kind: str, computed: tuple[int, ...]) -> PrefixCache:
    """What one prompt left, as if all of it had been on disk meanwhile."""
    model = model_of(kind)
    cache = PrefixCache(
        MemoryTier(budget_bytes=1 << 40), None, dump=snapshots.dump, revive=snapshots.revive
    )
    needs = snapshots.needs_of(new_caches(model))
    assert needs is not None
    compute_and_keep(cache, model, list(computed), needs)
    through_bytes(cache)
    return cache


def compute_and_keep(cache: PrefixCache, model: Any, tokens: list[int], needs: Needs) -> None:
    """Slice by slice as the engine does: a boundary is copied at the end of each block."""
    row = new_caches(model)
    for stop in [*range(BLOCK_TOKENS, len(tokens), BLOCK_TOKENS), len(tokens)]:
        start = (stop - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        model(mx.array([tokens[start:stop]]), cache=row)
        asked = query_of(tokens[:stop], needs)
        cache.store(
            asked,
            [
                Captured(
                    one.span,
                    snapshots.payload(snapshots.capture_slice(row, one.span.start, one.span.stop))
                    if one.wants_slice
                    else None,
                    snapshots.payload(snapshots.capture_boundary(row))
                    if one.wants_boundary
                    else None,
                )
                for one in cache.missing(asked, boundaries=frozenset([stop]))
            ],
        )


def through_bytes(cache: PrefixCache) -> None:
    for node in cache.nodes:
        for kind in sorted(node.in_memory):
            content = cache.memory.get(node.record(kind))
            revived = snapshots.revive(snapshots.dump(content))
            cache.memory.remove(node.record(kind))
            cache.memory.put(node.record(kind), revived.content, num_bytes=1, model="test")


@pytest.mark.parametrize(
    ("kind", "case"),
    [*itertools.product(KINDS, CASES), ("quantised", "another end inside a block")],
)
def test_logits_after_a_restored_prefix_are_those_of_a_fresh_run(kind: str, case: str) -> None:
    computed, asked, least = CASES[case]
    model, cache = model_of(kind), _cache_after(kind, tuple(computed))
    needs = snapshots.needs_of(new_caches(model))
    assert needs is not None
    plan = cache.plan(query_of(asked, needs))
    assert least <= plan.num_tokens < len(asked)
    if not least:
        assert plan.is_cold
        return
    row = new_caches(model)
    snapshots.restore(row, *cache.payloads(plan))
    restored = model(mx.array([asked[plan.num_tokens :]]), cache=row)[:, -1]
    fresh = model(mx.array([asked]), cache=new_caches(model))[:, -1]
    difference = mx.abs(restored - fresh).max().item()
    assert difference <= TOLERANCE * mx.abs(fresh).max().item()  # type: ignore[operator]


def test_a_restored_row_has_room_for_its_next_token() -> None:
    """Growing would copy all of it once more."""
    model, cache = model_of("tiny-qwen3"), _cache_after("tiny-qwen3", tuple(ONE))
    needs = snapshots.needs_of(new_caches(model))
    assert needs is not None
    plan = cache.plan(query_of([*ONE, 7], needs))
    row = new_caches(model)
    snapshots.restore(row, *cache.payloads(plan))
    sizes = [layer.nbytes for layer in row]
    model(mx.array([[7]]), cache=row)
    assert [layer.nbytes for layer in row] == sizes

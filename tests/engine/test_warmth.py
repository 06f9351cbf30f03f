"""How much of a waiting prompt is in memory, as the engine's cache knows it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from engine import wire
from engine.cache.prefix import PrefixCache
from engine.cache.record import Kind
from engine.reuse import owners_of
from engine.warmth import Warmth
from tests.engine.cache.toys import HYBRID, ROOT, compute, make_cache, query
from tests.makers import make_generate, make_work


def work_of(
    tokens: Sequence[int], *, of: str = "ann", cache_teams: tuple[str, ...] = ()
) -> wire.Work:
    work = make_work(make_generate("r", model="toy", tenant=of))
    return msgspec.structs.replace(work, prompt_token_ids=tuple(tokens), cache_teams=cache_teams)


def fresh(num_tokens: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(1 << 30) for _ in range(num_tokens)]


@pytest.fixture
def cache() -> PrefixCache:
    cache = make_cache()
    cache.roots["toy"] = ROOT
    return cache


def test_whole_blocks_that_are_in_memory_count(cache: PrefixCache) -> None:
    turn = fresh(1000)
    weight = Warmth(cache).weigh(work_of([*turn, *fresh(900, 1)]))
    assert weight() == 0
    compute(cache, query(turn))
    assert weight() == 768


def test_what_has_left_memory_does_not(cache: PrefixCache) -> None:
    turn = fresh(1000)
    compute(cache, query(turn))
    for node in cache.nodes:
        cache.nodes.put_on_disk(node, Kind.SLICE, 1)
    weight = Warmth(cache).weigh(work_of(turn))
    assert weight() == 768
    cache.clear("toy", tiers=(wire.CacheTier.MEMORY,))
    assert weight() == 0


def test_somebody_elses_does_not_but_a_teams_does(cache: PrefixCache) -> None:
    turn = fresh(1000)
    compute(cache, query(turn, owners=owners_of(work_of(turn, cache_teams=("t",)))))
    warmth = Warmth(cache)
    assert warmth.weigh(work_of(turn, of="ben"))() == 0
    assert warmth.weigh(work_of(turn, of="ben", cache_teams=("t",)))() == 768


def test_a_boundary_counts_where_layers_have_states(cache: PrefixCache) -> None:
    turn = fresh(1024)
    compute(cache, query(turn, needs=HYBRID), boundaries=[512])
    assert Warmth(cache).weigh(work_of([*turn, *fresh(600, 1)]))() == 1024


def test_a_model_that_was_never_loaded_has_nothing() -> None:
    assert Warmth(make_cache()).weigh(work_of(fresh(1000)))() == 0

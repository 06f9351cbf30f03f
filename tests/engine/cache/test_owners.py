"""Whose prefixes are: persons, teams, publications; and that nobody learns of anybody else's."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

from engine import wire
from engine.cache.nodes import MAX_OWNERS
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Needs, Query
from engine.cache.prefix import ModelRules, PrefixCache
from engine.cache.record import Kind

from .toys import ATTENTION, HYBRID, RECURRENT, compute, make_cache, num_forgotten, query, tenant

PROMPT = list(range(1, 1001))
STRICT = ModelRules(share_after=None)
TEAM = owner_name(OwnerKind.TEAM, "tigers")
OTHER_TEAM = owner_name(OwnerKind.TEAM, "bears")
PUBLISHED = owner_name(OwnerKind.PUBLICATION, "house rules")


KINDS = pytest.mark.parametrize("needs", [ATTENTION, HYBRID, RECURRENT])


def found(
    cache: PrefixCache, *, of: str, teams: tuple[bytes, ...] = (), needs: Needs = ATTENTION
) -> int:
    return cache.plan(query(PROMPT, owners=[tenant(of), *teams], needs=needs)).num_tokens


@KINDS
def test_a_team_shares_at_once_and_with_nobody_else(needs: Needs) -> None:
    cache = make_cache()
    cache.set_rules("toy", STRICT)
    compute(cache, query(PROMPT[:900], owners=[tenant("ann"), TEAM], needs=needs))
    assert found(cache, of="bob", teams=(OTHER_TEAM, TEAM), needs=needs) == 900
    assert found(cache, of="cleo", teams=(OTHER_TEAM,), needs=needs) == 0
    assert found(cache, of="dan", needs=needs) == 0


@KINDS
def test_what_enough_persons_computed_is_everybodys_as_the_model_says_now(needs: Needs) -> None:
    cache = make_cache()
    for name in ("ann", "bob"):
        compute(cache, query(PROMPT[:900], of=name, needs=needs))
    assert found(cache, of="dan", needs=needs) == 0
    cache.set_rules("toy", ModelRules(share_after=2))
    assert found(cache, of="dan", needs=needs) == 900
    cache.set_rules("toy", STRICT)
    assert found(cache, of="dan", needs=needs) == 0


def test_teams_do_not_count_as_persons() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, owners=[tenant("ann"), TEAM, OTHER_TEAM]))
    compute(cache, query(PROMPT, of="bob"))
    assert found(cache, of="cleo") == 0


def test_what_a_deleted_person_left_to_a_team_is_deleted() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, owners=[tenant("ann"), TEAM]))
    assert num_forgotten(cache, tenant("ann")) > 0
    assert found(cache, of="bob", teams=(TEAM,)) == 0
    assert cache.memory.used_bytes == 0


@KINDS
def test_a_published_prompt_is_everybodys_in_the_strict_mode_too(needs: Needs) -> None:
    cache = make_cache()
    cache.set_rules("toy", STRICT)
    compute(cache, query(PROMPT[:600], owners=[PUBLISHED], needs=needs))
    assert found(cache, of="ann", needs=needs) == 600
    cache.forget_owner(PUBLISHED)
    assert found(cache, of="ann", needs=needs) == 0


def test_a_published_prompt_stays_in_memory_until_it_is_unpublished() -> None:
    cache = make_cache(budget_bytes=20_000)
    compute(cache, query(PROMPT[:512], owners=[PUBLISHED]))
    for number in range(20):
        compute(cache, query([5000 + number, *PROMPT]))
    assert found(cache, of="ann") == 512
    assert cache.memory.pinned_bytes > 0
    cache.forget_owner(PUBLISHED)
    assert cache.memory.pinned_bytes == 0
    assert found(cache, of="ann") == 0


def test_what_as_many_own_as_can_is_published_all_the_same() -> None:
    cache = make_cache()
    cache.set_rules("toy", STRICT)
    for number in range(MAX_OWNERS):
        compute(cache, query(PROMPT[:600], of=f"person {number}"))
    compute(cache, query(PROMPT[:600], owners=[PUBLISHED]))
    assert found(cache, of="a newcomer") == 600


def test_a_block_has_no_more_owners_than_it_can() -> None:
    cache = make_cache()
    cache.set_rules("toy", STRICT)
    for number in range(MAX_OWNERS + 1):
        compute(cache, query(PROMPT[:600], of=f"person {number}"))
    assert {len(node.owners) for node in cache.nodes} == {MAX_OWNERS}
    assert found(cache, of=f"person {MAX_OWNERS - 1}") == 600
    assert found(cache, of=f"person {MAX_OWNERS}") == 0


def test_publishing_what_a_person_computed_keeps_it_theirs() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:512], of="ann"))
    compute(cache, query(PROMPT[:512], owners=[PUBLISHED]))
    assert found(cache, of="bob") == 512
    assert num_forgotten(cache, PUBLISHED) == 0
    assert found(cache, of="ann") == 512
    assert found(cache, of="bob") == 0


def test_who_used_what_was_published_keeps_it_when_it_is_published_no_more() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:512], owners=[PUBLISHED]))
    compute(cache, query(PROMPT[:512], of="ann"))
    assert num_forgotten(cache, PUBLISHED) == 0
    assert found(cache, of="ann") == 512
    assert found(cache, of="bob") == 0


def test_in_the_strict_mode_every_one_of_many_owns_what_they_computed() -> None:
    cache = make_cache()
    cache.set_rules("toy", STRICT)
    for number in range(20):
        compute(cache, query(PROMPT, of=f"p{number}"))
    assert found(cache, of="p19") == len(PROMPT) - 1


@pytest.mark.parametrize("needs", [ATTENTION, HYBRID])
def test_a_strangers_prompt_is_copied_like_a_new_one(needs: Needs) -> None:
    """Were it not copied, the time to the first token would tell that somebody had sent it."""
    cache = make_cache()
    compute(cache, query(PROMPT, of="ann", needs=needs))
    theirs = query(PROMPT, of="bob", needs=needs)
    fresh = query([7, *PROMPT[1:]], of="bob", needs=needs)
    boundaries = frozenset([len(PROMPT)])
    wanted = cache.missing(fresh, boundaries=boundaries)
    assert [
        (one.wants_slice, one.wants_boundary)
        for one in cache.missing(theirs, boundaries=boundaries)
    ] == [(one.wants_slice, one.wants_boundary) for one in wanted]


@pytest.mark.parametrize("needs", [HYBRID, RECURRENT])
@pytest.mark.parametrize("rules", [STRICT, ModelRules(share_after=3)])
def test_who_comes_past_where_a_strangers_prompt_ended_does_not_end_there(
    needs: Needs, rules: ModelRules
) -> None:
    """The cached tokens would tell whether a guess of a stranger's block is right."""
    cache = make_cache()
    cache.set_rules("toy", rules)
    compute(cache, query([*PROMPT[:256], 7, 8, 9], of="ann", needs=needs), boundaries=[256])
    compute(cache, query(PROMPT[:900], of="bob", needs=needs), boundaries=[768])
    again = query([*PROMPT[:300], 5, 6, 7], of="bob", needs=needs)
    assert cache.plan(again).num_tokens == 0
    compute(cache, again, boundaries=[256])
    assert cache.plan(query([*PROMPT[:300], 4], of="bob", needs=needs)).num_tokens == 256


def test_of_a_deleted_person_the_ends_go_and_what_others_computed_stays() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:256], of="ann", needs=HYBRID))
    passed = query(PROMPT, of="bob", needs=HYBRID)
    compute(cache, passed)
    block = cache.nodes.find(passed.chain.blocks[0])
    assert block is not None
    assert block.in_memory == {Kind.SLICE, Kind.BOUNDARY}
    assert num_forgotten(cache, tenant("ann")) == 1
    assert block.in_memory == {Kind.SLICE}
    assert cache.plan(query([*PROMPT, 7], of="bob", needs=HYBRID)).num_tokens == len(PROMPT)


def test_where_a_strangers_prompts_go_on_decides_nothing_for_others() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, of="ann", needs=HYBRID))
    plan = cache.plan(query([*PROMPT[:700], 1, 2, 3], of="bob", needs=HYBRID))
    assert plan.nearest_tokens == 700
    assert plan.branch_tokens == 0


@pytest.mark.parametrize("num_tokens", [500, 25_000])
def test_looking_up_a_strangers_prompt_is_as_much_work_as_a_new_one(num_tokens: int) -> None:
    """Were it less, the time to the first token would tell that somebody had sent it."""
    cache = make_cache()
    sent, fresh = _alike(range(30), num_tokens), _alike(range(100, 105), num_tokens)
    for tokens in sent:
        compute(cache, query(tokens, of="ann"))
    theirs = max(num_calls(cache, query(tokens, of="bob")) for tokens in sent[:5])
    news = [num_calls(cache, query(tokens, of="bob")) for tokens in fresh]
    assert min(news) <= theirs * 1.1 and theirs <= max(news) * 1.1


def test_how_much_strangers_have_sent_makes_a_look_up_no_longer() -> None:
    beside_one, beside_many = make_cache(), make_cache()
    compute(beside_one, query(_alike([0])[0], of="ann"))
    for tokens in _alike(range(1000)):
        compute(beside_many, query(tokens, of="ann"))
    new = query(_alike([5000])[0], of="bob")
    assert num_calls(beside_many, new) <= num_calls(beside_one, new) * 1.1


def _alike(salts: Iterable[int], num_tokens: int = 500) -> list[list[int]]:
    return [[1, 2, 3, salt, *range(num_tokens)] for salt in salts]


def num_calls(cache: PrefixCache, asked: Query) -> int:
    """How many functions a look-up enters."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        cache.plan(asked)
    finally:
        sys.setprofile(None)
    return calls


def test_a_strangers_boundary_does_not_hide_ones_own() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:700], of="bob", needs=RECURRENT))
    compute(cache, query(PROMPT[:256], of="ann", needs=RECURRENT))
    assert cache.plan(query(PROMPT, of="bob", needs=RECURRENT)).num_tokens == 700


def test_clearing_one_tier_leaves_the_other() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    cache.clear("toy", tiers=[wire.CacheTier.DISK])
    assert found(cache, of="ann") == len(PROMPT) - 1
    cache.clear("other")
    assert found(cache, of="ann") == len(PROMPT) - 1
    cache.clear("toy")
    assert found(cache, of="ann") == 0

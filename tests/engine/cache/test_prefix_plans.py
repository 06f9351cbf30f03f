"""What the prefix cache decides to restore, over payloads that name their own tokens."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from engine import wire
from engine.cache.captures import Captured, Payload
from engine.cache.memory_tier import MemoryTier
from engine.cache.plan import Miss, Needs, Query
from engine.cache.prefix import ModelRules, PrefixCache
from engine.cache.record import Kind, RecordKey
from engine.core.blocks import BLOCK_TOKENS, Chain, token_bytes

from .toys import (
    ATTENTION,
    CONTENTS,
    HYBRID,
    RECURRENT,
    ROOT,
    compute,
    make_cache,
    make_rows,
    num_forgotten,
    query,
    restored_tokens,
    tenant,
)

PROMPT = list(range(1, 1001))
MOST_CALLS_A_BLOCK = 70  # of a new prompt it is 65, of a known one 66


@pytest.mark.parametrize("needs", [ATTENTION, HYBRID, RECURRENT])
def test_an_exact_repeat_leaves_one_token_to_compute(needs: Needs) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:-1], needs=needs))
    asked = query(PROMPT, needs=needs)
    plan = cache.plan(asked)
    assert plan.num_tokens == len(PROMPT) - 1
    assert plan.miss == Miss.NONE
    restored_tokens(cache, asked, plan)


@pytest.mark.parametrize("needs", [ATTENTION, HYBRID, RECURRENT])
def test_the_second_turn_starts_where_the_first_ended(needs: Needs) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:700], needs=needs))
    asked = query(PROMPT, needs=needs)
    plan = cache.plan(asked)
    assert plan.num_tokens == 700
    restored_tokens(cache, asked, plan)


def test_an_edit_in_the_middle_keeps_every_token_before_it() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    edited = [*PROMPT[:600], 7, *PROMPT[601:]]
    plan = cache.plan(query(edited))
    assert plan.num_tokens == 600
    restored_tokens(cache, query(edited), plan)


@pytest.mark.parametrize("lengths", [(300, 450, 380), (450, 380, 300), (300, 380, 450)])
def test_of_prompts_that_part_inside_a_block_the_one_that_agrees_longest_is_used(
    lengths: tuple[int, ...],
) -> None:
    cache = make_cache()
    for length in lengths:
        compute(cache, query([*PROMPT[:length], *range(5000 + length, 5700)]))
    plan = cache.plan(query(PROMPT))
    assert plan.num_tokens == 450
    restored_tokens(cache, query(PROMPT), plan)


def test_of_a_block_that_parts_at_its_beginning_nothing_is_restored() -> None:
    cache = make_cache()
    compute(cache, query([*PROMPT[:512], 7, *PROMPT[:100]]))
    plan = cache.plan(query(PROMPT))
    assert [num_tokens for _, num_tokens in plan.slices] == [256, 256]


def test_an_edit_in_the_middle_walks_a_hybrid_back_to_its_boundary() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, needs=HYBRID), boundaries=[512])
    edited = query([*PROMPT[:600], 7, *PROMPT[601:]], needs=HYBRID)
    plan = cache.plan(edited)
    assert plan.num_tokens == 512
    assert plan.nearest_tokens == 600
    assert plan.miss == Miss.WALKED_BACK
    restored_tokens(cache, edited, plan)


@pytest.mark.parametrize(("by", "found"), [("bob", 400), ("ann", 0)])
def test_a_hybrid_walks_back_to_the_end_of_an_own_turn_inside_a_block(by: str, found: int) -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:400], of=by, needs=HYBRID))
    compute(cache, query(PROMPT[:700], of="bob", needs=HYBRID))
    asked = query([*PROMPT[:600], 7, 8, 9], of="bob", needs=HYBRID)
    plan = cache.plan(asked)
    assert plan.num_tokens == found
    restored_tokens(cache, asked, plan)


def test_recurrent_prompts_that_part_where_a_block_begins_part_there_for_the_next_one_too() -> None:
    cache = make_cache()
    compute(cache, query([*PROMPT[:512], 7, *PROMPT[:90]], needs=RECURRENT))
    plan = cache.plan(query([*PROMPT[:512], 8, *PROMPT[:90]], needs=RECURRENT))
    assert (plan.num_tokens, plan.branch_tokens) == (0, 512)  # a boundary is worth keeping there


def test_what_lies_behind_a_hole_is_not_used() -> None:
    cache = make_cache()
    asked = query(PROMPT, needs=HYBRID)
    compute(cache, asked, boundaries=[256, 512, 768])
    hole = RecordKey(asked.chain.blocks[1].key, Kind.SLICE)
    cache.memory.remove(hole)
    cache.nodes.dropped([hole], tier=wire.CacheTier.MEMORY)
    plan = cache.plan(asked)
    assert plan.num_tokens == 256
    restored_tokens(cache, asked, plan)


def test_of_many_that_part_in_a_block_each_is_found() -> None:
    cache = make_cache()
    for number in range(300):
        compute(cache, query([*PROMPT[:40], number + 5000, *PROMPT[:100]]))
    for number in range(0, 300, 50):
        one = [*PROMPT[:40], number + 5000, *PROMPT[:60]]
        assert cache.plan(query([*one, 7, 8, 9])).num_tokens == len(one)


@pytest.mark.parametrize("needs", [ATTENTION, HYBRID])
@pytest.mark.parametrize("num_strangers", [1, 63, 64, 200])
def test_what_strangers_blocks_hold_does_not_decide_which_own_one_is_found(
    needs: Needs, num_strangers: int
) -> None:
    """The cached tokens would tell of it: other people's prompts could be read, guess by guess."""
    asked = PROMPT[:200]
    alike = [[*asked, number + 5000] for number in range(num_strangers)]
    different = [[number + 5000, *asked] for number in range(num_strangers)]
    found = [
        [_found_beside(one, asked, is_first=is_first, needs=needs) for is_first in (True, False)]
        for one in (alike, different)
    ]
    assert found == [[60, 60], [60, 60]]


def _found_beside(
    strangers: list[list[int]], asked: list[int], *, is_first: bool, needs: Needs
) -> int:
    """How many tokens ann is given of her own, computed before what the others did or after."""
    cache = make_cache()
    own = query(asked[:60] if needs is HYBRID else [*asked[:60], 7, 8], of="ann", needs=needs)
    if is_first:
        compute(cache, own)
    for number, tokens in enumerate(strangers):
        compute(cache, query(tokens, of=f"stranger {number}", needs=needs))
    if not is_first:
        compute(cache, own)
    return cache.plan(query([*asked, 9, 9], of="ann", needs=needs)).num_tokens


def test_behind_a_prompt_that_a_thousand_others_share_the_own_one_is_found() -> None:
    cache = make_cache()
    cache.set_rules("toy", ModelRules(share_after=None))
    for number in range(1000):
        compute(cache, query([*PROMPT[:200], 3 * number + 5000], of=f"stranger {number}"))
    for number in range(20):
        asked = query([*PROMPT[:200], 150 * number + 5001], of="ann")
        found = cache.plan(asked).num_tokens
        assert found == (200 if number else 0)
        compute(cache, asked)


def test_a_hybrid_without_a_boundary_starts_cold() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, needs=HYBRID))
    plan = cache.plan(query([*PROMPT[:600], 7, 8], needs=HYBRID))
    assert plan.is_cold
    assert plan.miss == Miss.WALKED_BACK


def test_what_is_ones_own_but_not_for_every_layer_is_not_called_somebody_elses() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT[:700], needs=HYBRID))
    plan = cache.plan(query([*PROMPT[:690], 7, 8], needs=HYBRID))
    assert plan.is_cold
    assert plan.miss == Miss.WALKED_BACK


def test_a_repeated_block_is_not_taken_for_another_place() -> None:
    cache = make_cache()
    block = PROMPT[:BLOCK_TOKENS]
    compute(cache, query([*block, *block]))
    plan = cache.plan(query([*block, *block, *block]))
    assert plan.num_tokens == 2 * BLOCK_TOKENS
    assert cache.plan(query([9, *block])).is_cold


def test_a_key_is_not_believed_without_its_tokens() -> None:
    """Were two prefixes ever of one key, or a row of the index wrong in itself."""
    first, second = make_rows(2)
    forged = dataclasses.replace(second, tokens=first.tokens)
    memory = MemoryTier(budget_bytes=1 << 40)
    cache = PrefixCache(memory, None, contents=CONTENTS, rows=[first, forged])
    assert cache.plan(query(range(600))).num_tokens == BLOCK_TOKENS


def test_a_row_that_does_not_belong_to_its_key_is_not_taken() -> None:
    """What is computed later for that key would be kept under the row's tokens."""
    (row,) = make_rows(1)
    forged = dataclasses.replace(row, tokens=token_bytes(range(1, 257)))
    memory = MemoryTier(budget_bytes=1 << 40)
    cache = PrefixCache(memory, None, contents=CONTENTS, rows=[forged])
    compute(cache, query(range(300)))
    asked = query(range(1, 301))
    restored_tokens(cache, asked, cache.plan(asked))
    assert cache.plan(query(range(300))).num_tokens == 299


def test_a_prompt_that_begins_a_stored_one_is_covered_but_for_its_last_token() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    for length in (33, 255, 256, 257, 512, 600):
        asked = query(PROMPT[:length])
        plan = cache.plan(asked)
        assert plan.num_tokens == length - 1
        restored_tokens(cache, asked, plan)


def test_a_few_tokens_are_not_worth_restoring() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT))
    plan = cache.plan(query([*PROMPT[:20], *range(5000, 5100)]))
    assert plan.is_cold
    assert plan.miss == Miss.UNKNOWN


def test_nobody_uses_what_one_other_person_computed() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, of="ann"))
    plan = cache.plan(query(PROMPT, of="bob"))
    assert plan.is_cold
    assert plan.miss == Miss.NOT_OWNER
    assert plan.nearest_tokens == len(PROMPT) - 1


def test_what_three_people_computed_is_everybodys() -> None:
    cache = make_cache()
    for name in ("ann", "bob", "cleo"):
        compute(cache, query(PROMPT[:512], of=name))
    assert cache.plan(query(PROMPT, of="dan")).num_tokens == 512


def test_in_the_strict_mode_nothing_is_shared() -> None:
    cache = make_cache()
    cache.set_rules("toy", ModelRules(share_after=None))
    for name in ("ann", "bob", "cleo"):
        compute(cache, query(PROMPT[:512], of=name))
    assert cache.plan(query(PROMPT, of="dan")).is_cold


def test_computing_a_known_prompt_makes_one_its_owner_and_stores_nothing_twice() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, of="ann"))
    used = cache.memory.used_bytes
    compute(cache, query(PROMPT, of="bob"))
    assert cache.memory.used_bytes == used
    assert cache.plan(query(PROMPT, of="bob")).num_tokens == len(PROMPT) - 1


def test_deleting_a_person_deletes_what_only_they_own() -> None:
    cache = make_cache()
    compute(cache, query(PROMPT, of="ann"))
    compute(cache, query(PROMPT[:512], of="bob"))
    assert num_forgotten(cache, tenant("ann")) == 2
    assert cache.plan(query(PROMPT, of="ann")).is_cold
    assert cache.plan(query(PROMPT, of="bob")).num_tokens == 512


def test_a_prompt_of_32000_tokens_costs_a_few_calls_a_block() -> None:
    """Both a new prompt and one that is known."""
    cache, tokens = make_cache(), token_bytes(range(32_768))
    num_blocks = 32_768 // BLOCK_TOKENS
    for _ in range(2):
        calls = _count_calls(partial(_look_up_and_keep, cache, tokens))
        assert calls / num_blocks <= MOST_CALLS_A_BLOCK


def test_a_prompt_of_32000_tokens_is_looked_up_and_kept_in_two_milliseconds() -> None:
    """By thread CPU, the best of many, new and known. Where the machine is slow or busy, plain
    Python takes more than its usual 2.7 ms as well, and the bar moves along."""
    tokens = token_bytes(range(32_768))
    plain = fresh = known = math.inf
    for _ in range(80):
        cache = make_cache()
        plain = min(plain, _cpu_seconds(_make_plain_objects))
        fresh = min(fresh, _cpu_seconds(partial(_look_up_and_keep, cache, tokens)))
        known = min(known, _cpu_seconds(partial(_look_up_and_keep, cache, tokens)))
        if max(fresh, known) < max(2e-3, 0.75 * plain):
            return
    raise AssertionError(f"{fresh * 1e3:.2f} ms new, {known * 1e3:.2f} ms known")


def _make_plain_objects() -> None:
    kept = {}
    for number in range(8192):
        one = _Plain(number)
        kept[one.number] = one


class _Plain:
    def __init__(self, number: int) -> None:
        self.number = number


def _cpu_seconds(work: Callable[[], None]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def _count_calls(work: Callable[[], None]) -> int:
    """Of Python's functions and of C's."""
    num_calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal num_calls
        num_calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return num_calls


def _look_up_and_keep(cache: PrefixCache, tokens: bytes) -> None:
    """What the model thread does about a prompt, but for copying arrays."""
    chain = Chain(ROOT, tokens)
    asked = Query(
        model="toy",
        chain=chain,
        num_tokens=len(chain),
        owners=frozenset([tenant("ann")]),
        needs=ATTENTION,
    )
    cache.plan(asked)
    cache.used(asked, cache.plan_in_memory(asked), request_id="r")
    missing = cache.missing(asked, boundaries=frozenset([len(chain)]))
    cache.store(asked, [Captured(one.span, Payload(b"", 1000), None) for one in missing])
    cache.persist(asked)
    cache.release("r")

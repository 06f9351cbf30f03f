"""Names of prefixes: two that are not the same never meet."""

from __future__ import annotations

import random

from engine.core.blocks import BLOCK_TOKENS, Chain, common_tokens, root_key, token_bytes

ROOT = root_key({"model": "m"})


def test_fields_of_a_root_do_not_run_into_one_another() -> None:
    alike = [{"a": "bc"}, {"ab": "c"}, {"a": "b", "c": ""}, {"a": "", "bc": ""}, {"abc": ""}, {}]
    assert len({root_key(fields) for fields in alike}) == len(alike)
    assert root_key({"a": "1", "b": "2"}) == root_key({"b": "2", "a": "1"})


def test_a_key_names_all_that_comes_before_it() -> None:
    tokens = [*range(3 * BLOCK_TOKENS + 40)]
    keys = [span.key for span in Chain(ROOT, token_bytes(tokens)).spans(len(tokens))]
    assert len(keys) == len(set(keys)) == 4
    for place in (0, BLOCK_TOKENS - 1, 2 * BLOCK_TOKENS, len(tokens) - 1):
        other = [*tokens[:place], 9999, *tokens[place + 1 :]]
        others = [span.key for span in Chain(ROOT, token_bytes(other)).spans(len(other))]
        num_equal = place // BLOCK_TOKENS
        assert others[:num_equal] == keys[:num_equal]
        assert not set(others[num_equal:]) & set(keys)
    assert not set(keys) & {one.key for one in Chain(root_key({}), token_bytes(tokens)).blocks}


def test_a_chain_that_grows_is_the_chain_of_the_whole() -> None:
    dice, tokens = random.Random(1), [*range(1200)]
    grown = Chain(ROOT)
    while len(grown) < len(tokens):
        grown.extend(token_bytes(tokens[len(grown) : len(grown) + dice.choice([1, 7, 300])]))
        whole = Chain(ROOT, token_bytes(tokens[: len(grown)]))
        for num_tokens in (len(grown), dice.randrange(len(grown) + 1)):
            assert [*grown.spans(num_tokens)] == [*whole.spans(num_tokens)]


def test_what_two_runs_share_is_counted_in_whole_tokens() -> None:
    dice = random.Random(2)
    for _ in range(300):
        left = [dice.randrange(70_000) for _ in range(dice.randrange(1, 300))]
        agreed = dice.randrange(len(left) + 1)
        # A token that differs in its highest byte only begins as the other one does
        right = [*left[:agreed], *(token ^ 1 << 24 for token in left[agreed:])]
        right = right[: dice.randrange(agreed, len(right) + 1)]
        assert common_tokens(token_bytes(left), token_bytes(right)) == min(agreed, len(right))

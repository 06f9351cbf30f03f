"""Blocks in the order of their tokens, against looking at each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cache import siblings
from engine.cache.siblings import Siblings
from engine.core.blocks import common_tokens, token_bytes

# Few tokens, some of which have a byte in common, so that many blocks begin alike
blocks = st.lists(st.sampled_from([1, 2, 257, 1 << 24]), max_size=6).map(token_bytes)


@given(st.sets(blocks), st.sets(blocks), blocks)
def test_those_that_begin_alike_come_the_longest_first(
    added: set[bytes], removed: set[bytes], tokens: bytes
) -> None:
    known: Siblings = []
    for one in added:
        siblings.add(known, tokens=one, key=b"key of " + one)
    for one in removed:
        siblings.discard(known, tokens=one, key=b"key of " + one)
    found = list(siblings.nearest(known, tokens))
    alike = {one: common_tokens(one, tokens) for one in added - removed}
    assert [agreed for agreed, _ in found] == sorted(filter(None, alike.values()), reverse=True)
    assert {key: agreed for agreed, key in found} == {
        b"key of " + one: agreed for one, agreed in alike.items() if agreed
    }


@given(st.sets(blocks), blocks)
def test_those_that_tokens_begin_with_come_the_longest_first(
    added: set[bytes], tokens: bytes
) -> None:
    known: Siblings = []
    for one in added:
        siblings.add(known, tokens=one, key=b"key of " + one)
    whole = [one for one in added if one and tokens.startswith(one)]
    expected = [b"key of " + one for one in sorted(whole, key=len, reverse=True)]
    assert list(siblings.beginnings(known, tokens)) == expected


def test_of_two_with_the_same_tokens_the_named_one_goes() -> None:
    known: Siblings = []
    for key in (b"a", b"b"):
        siblings.add(known, tokens=token_bytes([1, 2]), key=key)
    siblings.discard(known, tokens=token_bytes([1, 2]), key=b"a")
    assert list(siblings.nearest(known, token_bytes([1, 2]))) == [(2, b"b")]

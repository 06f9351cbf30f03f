"""Blocks under one parent, in the order of their tokens.

[ a a b ... | a b a ... | a b b ... | b ... ]      what agrees with `a b c` the longest lies
                                  ^                next to where that belongs
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter

from engine.core.blocks import TOKEN_BYTES, common_tokens

Siblings = list[tuple[bytes, bytes]]  # tokens and key of each


def add(siblings: Siblings, *, tokens: bytes, key: bytes) -> None:
    bisect.insort(siblings, (tokens, key))


def discard(siblings: Siblings, *, tokens: bytes, key: bytes) -> None:
    place = bisect.bisect_left(siblings, (tokens, key))
    if siblings[place : place + 1] == [(tokens, key)]:
        del siblings[place]


def nearest(siblings: Siblings, tokens: bytes) -> Iterator[tuple[int, bytes]]:
    """How many of `tokens` each agrees with, and its key: the longest first. Those without a common
    beginning are left out."""
    place = bisect.bisect_left(siblings, (tokens,))
    before = _agreeing(reversed(range(place)), siblings, tokens)
    behind = _agreeing(range(place, len(siblings)), siblings, tokens)
    return heapq.merge(behind, before, key=itemgetter(0), reverse=True)


def beginnings(siblings: Siblings, tokens: bytes) -> Iterator[bytes]:
    """The keys of those that `tokens` begin with, the longest first. What comes last before so many
    of the tokens begins with all of them that are shorter."""
    num_bytes = len(tokens)
    while place := bisect.bisect_left(siblings, (tokens[:num_bytes] + b"\0",)):
        other, key = siblings[place - 1]
        num_bytes = TOKEN_BYTES * common_tokens(other, tokens)
        if not num_bytes:
            return
        if num_bytes == len(other):
            yield key
            num_bytes -= TOKEN_BYTES


def _agreeing(
    places: Iterable[int], siblings: Siblings, tokens: bytes
) -> Iterator[tuple[int, bytes]]:
    for place in places:
        other, key = siblings[place]
        agreed = common_tokens(other, tokens)
        if not agreed:
            return
        yield agreed, key

"""Blocks under one parent against a search through all of them, while they come, go and change
hands."""

from __future__ import annotations

import random
from collections.abc import Iterable, Set

import pytest

from engine.cache.node import Node
from engine.cache.nodes import Nodes
from engine.cache.record import Kind
from engine.core.blocks import TOKEN_BYTES, Span, common_tokens, token_bytes
from engine.wire import CacheTier

from .toys import tenant

PARENT = bytes(32)
PEOPLE = [tenant(name) for name in ("ann", "bob", "cleo")]


def some_tokens(rng: random.Random) -> bytes:
    """Few kinds of tokens, 256 among them: bytes of a token are not mistaken for tokens."""
    return token_bytes([rng.choice([1, 2, 256]) for _ in range(rng.randint(1, 6))])


def some_owners(rng: random.Random) -> frozenset[bytes]:
    return frozenset(rng.sample(PEOPLE, rng.randint(1, 2)))


def agreed(blocks: Iterable[bytes], tokens: bytes) -> list[int]:
    return sorted((common_tokens(one, tokens) for one in blocks), reverse=True)


class Known:
    """Nodes beside what a dictionary knows of them: tokens and owners."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.owners: dict[bytes, set[bytes]] = {}
        self.in_memory: set[bytes] = set()
        self.share_after: int | None = 3

    def change(self, rng: random.Random) -> None:
        tokens = some_tokens(rng)
        match rng.choice(["add", "add", "evict", "remove", "disown", "share"]):
            case "add":
                self._add(tokens, some_owners(rng))
            case "share":
                self.share_after = rng.choice([None, 1, 2, 3])
                for node in self.nodes.set_share_after("toy", self.share_after):
                    self.nodes.renote(node)
            case _ if tokens not in self.owners:
                return
            case "evict":
                self.drop(tokens, CacheTier.MEMORY)
            case "remove":
                self.drop(tokens, CacheTier.MEMORY)
                self.drop(tokens, CacheTier.DISK)
                del self.owners[tokens]
            case "disown":
                owner = rng.choice(PEOPLE)
                self.nodes.discard_owner(self._node(tokens), owner)
                self.owners[tokens].discard(owner)

    def usable(self, asking: Set[bytes], *, memory_only: bool) -> list[bytes]:
        enough = self.share_after or len(PEOPLE) + 1
        return [
            tokens
            for tokens, owners in self.owners.items()
            if (owners & asking or len(owners) >= enough)
            and (tokens in self.in_memory or not memory_only)
        ]

    def _add(self, tokens: bytes, owners: frozenset[bytes]) -> None:
        span = Span(tokens, PARENT, 0, len(tokens) // TOKEN_BYTES, tokens)
        node = self.nodes.obtain(span, Kind.SLICE, model="toy", owners=owners)
        self.nodes.add_owners(node, owners, kind=Kind.SLICE)
        self.nodes.put_in_memory(node, Kind.SLICE)
        self.nodes.put_on_disk(node, Kind.SLICE, 1)
        self.owners.setdefault(tokens, set()).update(owners)
        self.in_memory.add(tokens)

    def drop(self, tokens: bytes, tier: CacheTier) -> None:
        self.nodes.dropped([self._node(tokens).record(Kind.SLICE)], tier=tier)
        if tier is CacheTier.MEMORY:
            self.in_memory.discard(tokens)

    def _node(self, tokens: bytes) -> Node:
        node = self.nodes.get(tokens)
        assert node is not None
        return node


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("memory_only", [False, True])
def test_what_is_found_is_what_a_search_through_all_finds(seed: int, memory_only: bool) -> None:
    rng, known = random.Random(seed), Known()
    for _ in range(400):
        known.change(rng)
        tokens, asking = some_tokens(rng), some_owners(rng)
        siblings = known.nodes.under(PARENT, memory_only=memory_only)
        usable = known.usable(asking, memory_only=memory_only)
        nearest = [*siblings.nearest(tokens, asking)]
        assert all(common_tokens(node.tokens, tokens) == found for found, node in nearest)
        assert [found for found, _ in nearest] == sorted((one for one, _ in nearest), reverse=True)
        assert agreed({node.tokens for _, node in nearest}, tokens) == agreed(usable, tokens)
        beginnings = [node.tokens for node in siblings.beginnings(tokens, asking)]
        assert [*dict.fromkeys(beginnings)] == [
            tokens[:end] for end in range(len(tokens), 0, -TOKEN_BYTES) if tokens[:end] in usable
        ]
        everybodys = known.in_memory if memory_only else known.owners
        everybodys_agreed = max(agreed(everybodys, tokens), default=None)
        assert siblings.most_agreed_of_all(tokens) == everybodys_agreed
        usable_agreed = max(agreed(usable, tokens), default=None)
        assert siblings.most_agreed(tokens, asking) == usable_agreed


def test_nothing_is_left_of_those_that_went() -> None:
    rng, known = random.Random(1), Known()
    for _ in range(300):
        known.change(rng)
    for tokens in [*known.owners]:
        known.drop(tokens, CacheTier.MEMORY)
        known.drop(tokens, CacheTier.DISK)
    assert not len(known.nodes.under(PARENT))
    assert not len(known.nodes.under(PARENT, memory_only=True))

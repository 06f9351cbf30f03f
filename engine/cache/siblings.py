"""The blocks known under one parent, in the order of their tokens: a list for each owner.

    [ a a b ... | a b a ... | a b b ... | b ... ]      what agrees with `a b c` the longest lies
                                        ^              next to where that belongs

Only the lists of what a request may use are searched: what strangers have stored, and how much of
it, does not change what is found, nor the time by more than a few microseconds.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator, Set
from operator import attrgetter, itemgetter

from engine.cache.node import Node
from engine.core.blocks import TOKEN_BYTES, common_tokens

_EVERYBODY = b"everybody"  # no owner: those have 16 bytes
_tokens_of = attrgetter("tokens")


class Siblings:
    """Invariant: where there are lists, each node is in those of its owners, or in everybody's if
    everybody may use it. A node alone under its parent, as most are, needs none."""

    __slots__ = ("_all", "_lists")

    def __init__(self, *alone: Node) -> None:
        self._all = [*alone]
        self._lists: dict[bytes, list[Node]] | None = None

    def __len__(self) -> int:
        return len(self._all)

    def add(self, node: Node) -> None:
        _insert(self._all, node)
        if self._lists is not None:
            self.enlist(node)
        elif len(self._all) > 1:
            self._lists = {}
            for one in self._all:
                self.enlist(one)

    def discard(self, node: Node) -> None:
        self.delist(node)
        _remove(self._all, node)

    def enlist(self, node: Node) -> None:
        """After its owners have changed."""
        if self._lists is not None:
            for reader in _readers(node):
                _insert(self._lists.setdefault(reader, []), node)

    def delist(self, node: Node) -> None:
        """Before its owners change."""
        if self._lists is not None:
            for reader in _readers(node):
                _remove(self._lists[reader], node)
                if not self._lists[reader]:
                    del self._lists[reader]

    def nearest(self, tokens: bytes, asking: Set[bytes]) -> Iterator[tuple[int, Node]]:
        """What these owners may use, with how many of `tokens` each agrees: the longest first. What
        two of the owners own comes twice."""
        walks = [walk for nodes in self._usable(asking) for walk in _walks(nodes, tokens)]
        return heapq.merge(*walks, key=itemgetter(0), reverse=True)

    def most_agreed(self, tokens: bytes, asking: Set[bytes]) -> int | None:
        """How many of `tokens` the nearest agrees with; None if there is none."""
        return _most_agreed(self._usable(asking), tokens)

    def most_agreed_of_all(self, tokens: bytes) -> int | None:
        """The same, whoever owns it."""
        return _most_agreed([self._all], tokens)

    def beginnings(self, tokens: bytes, asking: Set[bytes]) -> Iterator[Node]:
        """What these owners may use that `tokens` begin with, the longest first."""
        found = [_beginnings(one, tokens) for one in self._usable(asking)]
        return heapq.merge(*found, key=lambda node: len(node.tokens), reverse=True)

    def _usable(self, asking: Set[bytes]) -> list[list[Node]]:
        if self._lists is None:
            return [[node for node in self._all if node.may_be_used_by(asking)]]
        return [self._lists[one] for one in (*asking, _EVERYBODY) if one in self._lists]


def _readers(node: Node) -> Iterable[bytes]:
    return (_EVERYBODY,) if node.is_everybodys else node.owners


def _insert(nodes: list[Node], node: Node) -> None:
    bisect.insort(nodes, node, key=_tokens_of)


def _remove(nodes: list[Node], node: Node) -> None:
    """One that is among them; no two of them have the same tokens."""
    del nodes[bisect.bisect_left(nodes, node.tokens, key=_tokens_of)]


def _most_agreed(lists: list[list[Node]], tokens: bytes) -> int | None:
    agreed = []
    for nodes in lists:
        place = bisect.bisect_left(nodes, tokens, key=_tokens_of)
        agreed += [
            common_tokens(one.tokens, tokens) for one in nodes[max(place - 1, 0) : place + 1]
        ]
    return max(agreed, default=None)


def _walks(nodes: list[Node], tokens: bytes) -> tuple[Iterator[tuple[int, Node]], ...]:
    """Away from where `tokens` belong, to both sides: always fewer agree."""
    place = bisect.bisect_left(nodes, tokens, key=_tokens_of)
    return (
        ((common_tokens(nodes[at].tokens, tokens), nodes[at]) for at in range(place, len(nodes))),
        ((common_tokens(nodes[at].tokens, tokens), nodes[at]) for at in range(place - 1, -1, -1)),
    )


def _beginnings(nodes: list[Node], tokens: bytes) -> Iterator[Node]:
    """What comes last before so many of the tokens begins with all of them that are shorter."""
    num_bytes = len(tokens)
    while place := bisect.bisect_right(nodes, tokens[:num_bytes], key=_tokens_of):
        node = nodes[place - 1]
        num_bytes = TOKEN_BYTES * common_tokens(node.tokens, tokens)
        if not num_bytes:
            return
        if num_bytes == len(node.tokens):
            yield node
            num_bytes -= TOKEN_BYTES

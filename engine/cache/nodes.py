"""The tree of known blocks, whatever tier their records are in. It does not know payloads.

A node names a prefix by its key and hangs under its parent, so that a prompt can be followed block
by block, and where it leaves the known chains the nearest child tells how many more tokens agree.
Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Set

from engine.cache.owners import has_publication
from engine.cache.record import Kind, RecordKey
from engine.core.blocks import TOKEN_BYTES, Span
from engine.wire import CacheTier

MAX_OWNERS = 256  # 4 KB a block; who comes later computes for themselves in the strict mode


@dataclasses.dataclass(slots=True)
class Node:
    """`owners` computed this block themselves or speak for those who did; `on_disk` are the kinds
    whose files are written, with their sizes, `saving` those handed to the writer, `pinned` what
    stays in memory because it is published."""

    key: bytes
    parent: bytes
    tokens: bytes
    model: str
    owners: set[bytes] = dataclasses.field(default_factory=set)
    is_published: bool = False
    on_disk: dict[Kind, int] = dataclasses.field(default_factory=dict)
    in_memory: set[Kind] = dataclasses.field(default_factory=set)
    saving: frozenset[Kind] = frozenset()
    pinned: frozenset[RecordKey] = frozenset()
    children: dict[bytes, None] = dataclasses.field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) // TOKEN_BYTES

    def has(self, kind: Kind) -> bool:
        return kind in self.in_memory or kind in self.on_disk

    def record(self, kind: Kind) -> RecordKey:
        return RecordKey(self.key, kind)

    def records(self) -> list[RecordKey]:
        kinds = self.in_memory | self.on_disk.keys() | self.saving
        return [self.record(kind) for kind in sorted(kinds)]

    def add_owners(self, owners: Set[bytes]) -> bool:
        """Whether that was news."""
        is_full = len(self.owners) >= MAX_OWNERS and not has_publication(owners)
        if owners <= self.owners or is_full:
            return False
        self.owners |= owners
        self.is_published = self.is_published or has_publication(owners)
        return True

    def discard_owner(self, owner: bytes) -> None:
        self.owners.discard(owner)
        self.is_published = has_publication(self.owners)


class Nodes:
    """Invariant: a node has a record in some tier or on its way to the disk; without one it is
    forgotten.

    `_orphans` are the children of keys that have no node of their own: a root, an evicted parent.
    """

    def __init__(self) -> None:
        self.disk_bytes: Counter[str] = Counter()  # by model, as disk_records
        self.disk_records: Counter[str] = Counter()
        self._nodes: dict[bytes, Node] = {}
        self._orphans: dict[bytes, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def get(self, key: bytes) -> Node | None:
        return self._nodes.get(key)

    def find(self, span: Span) -> Node | None:
        """The node of exactly these tokens; not only the key is compared."""
        node = self._nodes.get(span.key)
        return node if node is not None and node.tokens == span.token_bytes else None

    def obtain(self, *, key: bytes, parent: bytes, tokens: bytes, model: str) -> Node:
        """The node of this key, made if there is none."""
        node = self._nodes.get(key)
        if node is None:
            node = Node(key, parent, tokens, model)
            node.children = self._orphans.pop(key, {})
            self._nodes[key] = node
            above = self._nodes.get(parent)
            siblings = self._orphans.setdefault(parent, {}) if above is None else above.children
            siblings[key] = None
        return node

    def children(self, key: bytes) -> Iterator[Node]:
        """The blocks known under a key, youngest first."""
        return (self._nodes[child] for child in reversed(self._under(key)))

    def has_siblings(self, span: Span) -> bool:
        """Whether other blocks than this one may be known under its parent."""
        return len(self._under(span.parent)) > 1

    def put_on_disk(self, node: Node, kind: Kind, num_bytes: int) -> None:
        self._take_off_disk(node, kind)
        node.on_disk[kind] = num_bytes
        self.disk_bytes[node.model] += num_bytes
        self.disk_records[node.model] += 1

    def forget_saving(self, records: Iterable[RecordKey]) -> None:
        """Nobody waits any more for the disk to have these."""
        for record in records:
            if (node := self._nodes.get(record.block)) is not None:
                node.saving -= {record.kind}

    def dropped(self, records: Iterable[RecordKey], *, tier: CacheTier) -> None:
        """These records left a tier; nodes left without any are forgotten."""
        for record in records:
            node = self._nodes.get(record.block)
            if node is None:
                continue
            if tier is CacheTier.MEMORY:
                node.in_memory.discard(record.kind)
                node.pinned -= {record}
            else:
                self._take_off_disk(node, record.kind)
            if not node.records():
                self._forget(node)

    def _take_off_disk(self, node: Node, kind: Kind) -> None:
        if (num_bytes := node.on_disk.pop(kind, None)) is not None:
            self.disk_bytes[node.model] -= num_bytes
            self.disk_records[node.model] -= 1

    def _forget(self, node: Node) -> None:
        del self._nodes[node.key]
        if node.children:
            self._orphans[node.key] = node.children
        siblings = self._under(node.parent)
        siblings.pop(node.key, None)
        if not siblings:
            self._orphans.pop(node.parent, None)

    def _under(self, key: bytes) -> dict[bytes, None]:
        node = self._nodes.get(key)
        return node.children if node is not None else self._orphans.get(key, {})

"""The tree of known blocks, whatever tier their records are in. It does not know payloads.

A node names a prefix by its key and hangs under its parent, so that a prompt can be followed block
by block, and where it leaves the known chains the nearest child tells how many more tokens agree.
Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from engine.cache.record import Kind, RecordKey
from engine.core.blocks import TOKEN_BYTES, Span

MAX_OWNERS = 8


@dataclasses.dataclass(slots=True)
class Node:
    """`owners` computed this block themselves; `on_disk` are the kinds whose files are written,
    `saving` those handed to the writer, `file_bytes` the sizes of the written ones."""

    key: bytes
    parent: bytes
    tokens: bytes
    model: str
    owners: set[bytes] = dataclasses.field(default_factory=set)
    on_disk: set[Kind] = dataclasses.field(default_factory=set)
    in_memory: set[Kind] = dataclasses.field(default_factory=set)
    saving: set[Kind] = dataclasses.field(default_factory=set)
    file_bytes: dict[Kind, int] = dataclasses.field(default_factory=dict)
    children: dict[bytes, None] = dataclasses.field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) // TOKEN_BYTES

    def has(self, kind: Kind) -> bool:
        return kind in self.in_memory or kind in self.on_disk

    def record(self, kind: Kind) -> RecordKey:
        return RecordKey(self.key, kind)

    def add_owner(self, owner: bytes) -> bool:
        """Whether that was news. Past MAX_OWNERS a block belongs to everybody already."""
        if owner in self.owners or len(self.owners) >= MAX_OWNERS:
            return False
        self.owners.add(owner)
        return True


class Nodes:
    """Invariant: a node has a record in some tier; without one it is forgotten.

    `_orphans` are the children of keys that have no node of their own: a root, an evicted parent.
    """

    def __init__(self) -> None:
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
            self._children_of(parent)[key] = None
        return node

    def children(self, key: bytes) -> Iterator[Node]:
        """The blocks known under a key, youngest first."""
        node = self._nodes.get(key)
        children = node.children if node is not None else self._orphans.get(key, {})
        return (self._nodes[child] for child in reversed(children))

    def dropped(self, records: Iterable[RecordKey], *, tier: str) -> None:
        """These records left a tier ("memory" or "disk"); nodes left without any are forgotten."""
        for record in records:
            node = self._nodes.get(record.block)
            if node is None:
                continue
            (node.in_memory if tier == "memory" else node.on_disk).discard(record.kind)
            if not node.in_memory and not node.on_disk:
                self._forget(node)

    def _forget(self, node: Node) -> None:
        del self._nodes[node.key]
        if node.children:
            self._orphans[node.key] = node.children
        siblings = self._children_of(node.parent)
        siblings.pop(node.key, None)
        if not siblings:
            self._orphans.pop(node.parent, None)

    def _children_of(self, key: bytes) -> dict[bytes, None]:
        node = self._nodes.get(key)
        return node.children if node is not None else self._orphans.setdefault(key, {})

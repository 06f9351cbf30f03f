"""The tree of known blocks, whatever tier their records are in. It does not know payloads.

A node names a prefix by its key and hangs under its parent, so that a prompt can be followed block
by block, and where it leaves the known chains the nearest child tells how many more tokens agree.
Owner: the model thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from engine.cache.node import Node
from engine.cache.owners import are_enough, has_publication
from engine.cache.record import Kind, RecordKey
from engine.cache.siblings import Siblings
from engine.core.blocks import OPENING_PARENT, Span
from engine.wire import SHARE_AFTER, CacheTier

_NO_SIBLINGS = Siblings()
MAX_OWNERS = 256  # 4 KB a block; who comes later computes for themselves in the strict mode


class Nodes:
    """Invariant: a node has a record in some tier or on its way to the disk; without one it is
    forgotten.

    `_known` are the nodes under a key, `_in_memory` those of them with a record in memory. The key
    need not have a node: a root has none, nor has an evicted parent. Openings are found by their
    key alone.
    """

    def __init__(self) -> None:
        self.disk_bytes: Counter[str] = Counter()  # by model, as disk_records
        self.disk_records: Counter[str] = Counter()
        self._nodes: dict[bytes, Node] = {}
        self._known: dict[bytes, Siblings] = {}
        self._in_memory: dict[bytes, Siblings] = {}
        self._share_after: defaultdict[str, int | None] = defaultdict(lambda: SHARE_AFTER)

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

    def obtain(self, span: Span, kind: Kind, *, model: str, owners: frozenset[bytes]) -> Node:
        """The node of this block; if there is none it is made, for a record of these owners."""
        node = self._nodes.get(span.key)
        if node is None:
            node = self._nodes[span.key] = Node(span.key, span.parent, span.token_bytes, model)
            self._note_owners(node, owners, owners if kind is Kind.BOUNDARY else frozenset())
            _hang(node, self._known)
        return node

    def under(self, key: bytes, *, memory_only: bool = False) -> Siblings:
        """The blocks known under a key."""
        return (self._in_memory if memory_only else self._known).get(key, _NO_SIBLINGS)

    def add_owners(self, node: Node, owners: frozenset[bytes], *, kind: Kind) -> bool:
        """They own the node's record of this kind; whether that was news. The owners of a boundary
        own all of the block."""
        is_boundary = kind is Kind.BOUNDARY
        if owners <= node.owners and (not is_boundary or owners <= node.boundary_owners):
            return False
        is_full = len(node.owners) >= MAX_OWNERS and not has_publication(owners)
        if is_full and not owners <= node.owners:
            return False
        of_boundary = node.boundary_owners | owners if is_boundary else node.boundary_owners
        self._set_owners(node, node.owners | owners, of_boundary)
        return True

    def discard_owner(self, node: Node, owner: bytes) -> None:
        self._set_owners(node, node.owners - {owner}, node.boundary_owners - {owner})

    def set_share_after(self, model: str, share_after: int | None) -> list[Node]:
        """How many persons make a block of this model everybody's; None: none do. Those of which
        that may be true no more, or only now, until renote()."""
        before, self._share_after[model] = self._share_after[model], share_after
        if share_after == before:
            return []
        fewest = min(one for one in (before, share_after) if one is not None)
        return [node for node in self if node.model == model and len(node.owners) >= fewest]

    def renote(self, node: Node) -> None:
        """See whose it is by what counts now."""
        self._set_owners(node, node.owners, node.boundary_owners)

    def put_in_memory(self, node: Node, kind: Kind) -> None:
        if not node.in_memory:
            _hang(node, self._in_memory)
        node.in_memory.add(kind)

    def put_on_disk(self, node: Node, kind: Kind, num_bytes: int) -> None:
        self._take_off_disk(node, kind)
        node.on_disk[kind] = num_bytes
        self.disk_bytes[node.model] += num_bytes
        self.disk_records[node.model] += 1

    def forget_saving(self, records: Iterable[RecordKey]) -> None:
        """Nobody waits any more for the disk to have these."""
        for record in records:
            if (node := self._nodes.get(record.block)) is not None:
                node.saving.pop(record.kind, None)

    def dropped(self, records: Iterable[RecordKey], *, tier: CacheTier) -> None:
        """These records left a tier; nodes left without any are forgotten."""
        for record in records:
            node = self._nodes.get(record.block)
            if node is None:
                continue
            if tier is CacheTier.MEMORY:
                self._take_out_of_memory(node, record.kind)
                node.pinned -= {record}
            else:
                self._take_off_disk(node, record.kind)
            if not node.records():
                self._forget(node)

    def _take_out_of_memory(self, node: Node, kind: Kind) -> None:
        if kind in node.in_memory:
            node.in_memory.remove(kind)
            if not node.in_memory:
                _unhang(node, self._in_memory)

    def _take_off_disk(self, node: Node, kind: Kind) -> None:
        if (num_bytes := node.on_disk.pop(kind, None)) is not None:
            self.disk_bytes[node.model] -= num_bytes
            self.disk_records[node.model] -= 1

    def _forget(self, node: Node) -> None:
        del self._nodes[node.key]
        _unhang(node, self._known)

    def _set_owners(
        self, node: Node, owners: frozenset[bytes], of_boundary: frozenset[bytes]
    ) -> None:
        families = [self.under(node.parent)]
        if node.in_memory:
            families.append(self.under(node.parent, memory_only=True))
        for family in families:
            family.delist(node)
        self._note_owners(node, owners, of_boundary)
        for family in families:
            family.enlist(node)

    def _note_owners(
        self, node: Node, owners: frozenset[bytes], of_boundary: frozenset[bytes]
    ) -> None:
        share_after = self._share_after[node.model]
        node.owners, node.boundary_owners = owners, of_boundary
        node.is_published = has_publication(owners)
        node.is_everybodys = node.is_published or are_enough(owners, share_after=share_after)
        node.is_everybodys_boundary = bool(of_boundary) and (
            has_publication(of_boundary) or are_enough(of_boundary, share_after=share_after)
        )


def _hang(node: Node, families: dict[bytes, Siblings]) -> None:
    if node.parent in families:
        families[node.parent].add(node)
    elif node.parent != OPENING_PARENT:
        families[node.parent] = Siblings(node)


def _unhang(node: Node, families: dict[bytes, Siblings]) -> None:
    if node.parent in families:
        families[node.parent].discard(node)
        if not families[node.parent]:
            del families[node.parent]

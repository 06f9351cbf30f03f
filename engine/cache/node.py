"""A known block: a prefix's name, whose it is, and in which tiers its records are."""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from engine.cache.record import Kind, RecordKey
from engine.core.blocks import TOKEN_BYTES


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """`owners` computed this block themselves or speak for those who did, `boundary_owners` are
    those of them who ended there: where a prompt ends is theirs to know, too. `on_disk` are the
    kinds whose files are written, with their sizes, `saving` those handed to the writer, with their
    last use, which tells a save from a former one, `pinned` what stays in memory because it is
    published. Nodes alone changes whose it is."""

    key: bytes
    parent: bytes
    tokens: bytes
    model: str
    owners: frozenset[bytes] = frozenset()
    boundary_owners: frozenset[bytes] = frozenset()
    is_published: bool = False
    is_everybodys: bool = False
    is_everybodys_boundary: bool = False
    on_disk: dict[Kind, int] = dataclasses.field(default_factory=dict)
    in_memory: set[Kind] = dataclasses.field(default_factory=set)
    saving: dict[Kind, float] = dataclasses.field(default_factory=dict)
    pinned: frozenset[RecordKey] = frozenset()

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) // TOKEN_BYTES

    def may_be_used_by(self, asking: Set[bytes]) -> bool:
        """Whether a request that stands for these owners may use it."""
        return self.is_everybodys or not self.owners.isdisjoint(asking)

    def may_end_for(self, asking: Set[bytes]) -> bool:
        """Whether such a request may use its boundary."""
        return self.is_everybodys_boundary or not self.boundary_owners.isdisjoint(asking)

    def owners_of(self, kind: Kind) -> frozenset[bytes]:
        return self.boundary_owners if kind is Kind.BOUNDARY else self.owners

    def has(self, kind: Kind) -> bool:
        return kind in self.in_memory or kind in self.on_disk

    def record(self, kind: Kind) -> RecordKey:
        return RecordKey(self.key, kind)

    def records(self) -> list[RecordKey]:
        kinds = self.in_memory | self.on_disk.keys() | self.saving.keys()
        return [self.record(kind) for kind in sorted(kinds)]

"""Where records are: the tree of nodes and both tiers, kept in step.

It decides neither what a request may use nor what is worth keeping. Payloads are opaque. Owner: the
model thread; the disk is behind CacheIO.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine import wire
from engine.cache.captures import Contents, Payload
from engine.cache.disk_index import CHAIN_STEP_SECONDS, Row
from engine.cache.io_thread import CacheIO, Saved
from engine.cache.memory_tier import MemoryTier
from engine.cache.node import Node
from engine.cache.nodes import Nodes
from engine.cache.record import ArrayBytes, Kind, RecordKey
from engine.cache.statistics import CacheStatistics
from engine.core.blocks import TOKEN_BYTES, Span, block_key

EVERY_TIER = tuple(wire.CacheTier)
_LEAST_USE_SECONDS = 1024 * CHAIN_STEP_SECONDS  # between two uses, of chains of so many blocks
logger = logging.getLogger(__name__)


class Records:
    """Invariants: a node's in_memory kinds are those in the memory tier; what is published is
    pinned there as far as pins have room."""

    def __init__(
        self,
        memory: MemoryTier,
        io: CacheIO | None,
        statistics: CacheStatistics,
        *,
        contents: Contents,
        rows: Iterable[Row] = (),
    ) -> None:
        self.nodes = Nodes()
        self._memory = memory
        self._io = io
        self._statistics = statistics
        self._contents = contents
        self._uncomputed: list[tuple[Node, Kind, Any]] = []
        self._unwritten: dict[bytes, Node] = {}  # on disk with fewer owners than they have
        self._used_at = 0.0  # what lies on disk was used last
        for row in sorted(rows, key=lambda row: row.tokens):  # siblings come in their order
            self._used_at = max(self._used_at, row.used_at)
            self._add_row(row)

    # --- in memory

    def hold(
        self, span: Span, kind: Kind, payload: Payload, *, model: str, owners: frozenset[bytes]
    ) -> None:
        """Keep what these owners have of a block, while `computing`."""
        node = self.nodes.obtain(span, kind, model=model, owners=owners)
        self.add_owners(node, owners, kind=kind)
        self.put(node, kind, payload)

    def put(self, node: Node, kind: Kind, payload: Payload) -> None:
        if kind in node.in_memory:
            return
        self.nodes.put_in_memory(node, kind)
        evicted = self._memory.put(
            node.record(kind), payload.content, num_bytes=payload.num_bytes, model=node.model
        )
        if node.is_published:
            self._pin_published(node)
        self._uncomputed.append((node, kind, payload.content))
        self._left_memory(evicted)

    def revive(self, node: Node, kind: Kind, arrays: Sequence[ArrayBytes]) -> None:
        """Put what was on disk, while `computing`; what memory does not take stays there."""
        with self._counting_faults([node]):
            self.put(node, kind, self._contents.revive(arrays))

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """What is put meanwhile is computed at the end, all at once, as each call costs a device
        time; but for what had to go already."""
        try:
            yield
        finally:
            put, self._uncomputed = self._uncomputed, []
            held = [one for one in put if one[1] in one[0].in_memory]
            if held:
                self._compute(held)

    def _compute(self, held: Sequence[tuple[Node, Kind, Any]]) -> None:
        """Of what cannot be computed nothing is kept."""
        is_computed = False
        with self._counting_faults([node for node, _, _ in held]):
            self._contents.compute([content for _, _, content in held])
            is_computed = True
        if not is_computed:
            records = [node.record(kind) for node, kind, _ in held]
            self.remove(records, tiers=(wire.CacheTier.MEMORY,))

    @contextlib.contextmanager
    def _counting_faults(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Without these a request is slower, and nothing else."""
        try:
            yield
        except Exception:  # whatever the device says
            for model in {node.model for node in nodes}:
                self._statistics.count_fault(model)
                logger.warning("a cache fault", extra={"model": model}, exc_info=True)

    def touch(self, chain: Sequence[RecordKey]) -> None:
        """A chain was used, from its beginning."""
        self._memory.touch(reversed(chain))
        written = [one for one in chain if self._is_on_disk(one)]
        if self._io is not None and written:
            used_at = self.next_use()
            self._io.maintain(lambda disk: disk.touch(written, used_at))

    def set_shares(self, model: str, *, memory: float, disk: float) -> None:
        """The parts of each tier's budget that a model may fill."""
        self._left_memory(self._memory.set_share(model, memory))
        if self._io is not None:
            self._io.maintain(lambda tier: tier.set_share(model, disk))

    def shrink(self, to_bytes: int) -> int:
        """Let the memory tier go down to this size; how many bytes it gave back."""
        before = self._memory.used_bytes
        self._left_memory(self._memory.shrink(to_bytes))
        return before - self._memory.used_bytes

    # --- owners

    def add_owners(self, node: Node, owners: frozenset[bytes], *, kind: Kind) -> None:
        """The disk hears of it with write_owners(): a first token may be waiting now."""
        if self.nodes.add_owners(node, owners, kind=kind):
            self._note_owners(node)

    def discard_owner(self, node: Node, owner: bytes) -> None:
        """As above."""
        self.nodes.discard_owner(node, owner)
        self._note_owners(node)

    def write_owners(self) -> None:
        if self._unwritten:
            self._write_owners(self._unwritten.values())
            self._unwritten.clear()

    # --- on disk

    def next_use(self) -> float:
        """Unix time, but later than all of before whatever the clock says: what was used last
        leaves the disk last, also when the clock was ahead."""
        self._used_at = max(time.time(), self._used_at + _LEAST_USE_SECONDS)
        return self._used_at

    def save(self, node: Node, *, used_at: float) -> None:
        """Hand what is in memory and not on disk to the writer."""
        if self._io is None:
            return
        for kind in sorted(node.in_memory - node.on_disk.keys() - node.saving.keys()):
            row = Row(
                record=node.record(kind),
                model=node.model,
                parent=node.parent,
                tokens=node.tokens,
                file_bytes=0,
                owners=node.owners_of(kind),
                used_at=used_at,
            )
            readout = self._contents.dump(self._memory.get(row.record))
            self._statistics.num_saved += 1
            if self._io.save(row, readout):
                node.saving[kind] = used_at
            else:
                self._statistics.num_dropped += 1

    def take_saved(self, saved: Saved) -> None:
        """The writer is done with a record, one way or the other."""
        self.nodes.dropped(saved.evicted, tier=wire.CacheTier.DISK)
        self._statistics.num_persisted += saved.is_persisted
        self._statistics.num_dropped += not saved.is_persisted
        node = self.nodes.get(saved.record.block)
        if node is None or node.saving.get(saved.record.kind) != saved.used_at:
            return  # removed while it was written, and its file after that
        del node.saving[saved.record.kind]
        if not saved.is_persisted:
            self.nodes.dropped([saved.record], tier=wire.CacheTier.DISK)
            return
        self.nodes.put_on_disk(node, saved.record.kind, saved.file_bytes)
        # Others became owners since it was handed over.
        if node.owners_of(saved.record.kind) != saved.owners:
            self._write_owners([node])

    # --- away

    def remove(
        self, records: list[RecordKey], *, tiers: Sequence[wire.CacheTier] = EVERY_TIER
    ) -> None:
        if wire.CacheTier.DISK in tiers:
            self.nodes.forget_saving(records)
            self.nodes.dropped(records, tier=wire.CacheTier.DISK)
            self._remove_files(records)
        if wire.CacheTier.MEMORY in tiers:
            for record in records:
                self._memory.remove(record)
            self._left_memory(records)

    def drop_outgrown(self, span: Span, owners: frozenset[bytes]) -> None:
        """Tails of their earlier turns that this block begins with: a restore can end inside it."""
        siblings = self.nodes.under(span.parent)
        node = self.nodes.find(span) if len(siblings) > 1 else None
        if node is None:
            return
        for tail in {*siblings.beginnings(span.token_bytes, owners)}:
            if tail is not node and tail.owners <= node.owners:
                self.remove(tail.records())

    # --- inside

    def _note_owners(self, node: Node) -> None:
        if node.on_disk:
            self._unwritten[node.key] = node
        self._pin_published(node)

    def _is_on_disk(self, record: RecordKey) -> bool:
        node = self.nodes.get(record.block)
        return node is not None and record.kind in node.on_disk

    def _is_saving(self, record: RecordKey) -> bool:
        node = self.nodes.get(record.block)
        return node is not None and record.kind in node.saving

    def _add_row(self, row: Row) -> None:
        """One whose key is not that of its tokens is left out: what is computed for that key would
        be kept under them. An opening's key does not come from its tokens."""
        key, kind = row.record
        if kind is not Kind.OPENING and key != block_key(row.parent, row.tokens):
            return
        span = Span(key, row.parent, 0, len(row.tokens) // TOKEN_BYTES, row.tokens)
        node = self.nodes.obtain(span, kind, model=row.model, owners=row.owners)
        self.nodes.put_on_disk(node, kind, row.file_bytes)
        self.nodes.add_owners(node, row.owners, kind=kind)

    def _write_owners(self, nodes: Iterable[Node]) -> None:
        owners = {
            node.record(kind): node.owners_of(kind) for node in nodes for kind in node.on_disk
        }
        if self._io is not None and owners:
            self._io.maintain(lambda disk: disk.set_owners(owners))

    def _pin_published(self, node: Node) -> None:
        """A published prompt stays in memory until it is published no more."""
        if node.is_published:
            held = {node.record(kind) for kind in node.in_memory}
            node.pinned |= set(self._memory.pin(held - node.pinned))
        elif node.pinned:
            self._memory.unpin(node.pinned)
            node.pinned = frozenset()

    def _left_memory(self, records: Sequence[RecordKey]) -> None:
        """What waits to be written is nowhere else now, and holds the memory that it left."""
        if self._io is not None and any(map(self._is_saving, records)):
            self._io.hurry()
        self.nodes.dropped(records, tier=wire.CacheTier.MEMORY)

    def _remove_files(self, records: list[RecordKey]) -> None:
        """Also those that are not there yet."""
        if self._io is None or not records:
            return
        unwritten = self._io.withdraw(frozenset(records))
        self._statistics.num_dropped += len(unwritten)
        if written := [one for one in records if one not in unwritten]:
            self._io.maintain(lambda disk: disk.remove(written))

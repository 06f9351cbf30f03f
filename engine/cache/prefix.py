"""The prefix cache: what of a prompt need not be computed again, over both tiers.

It does not know mlx: payloads are opaque, two callables turn one into bytes and back. It does not
know people: a tenant is a 16-byte name. Owner: the model thread; the disk is behind CacheIO.

    plan(query)          -> RestorePlan            decide
    payloads(plan)       -> what to restore from   when everything is in memory
    fetch(id, plan)      -> then take_fetched()    when part of it is on disk
    missing(query, ...)  -> spans worth capturing  before a copy is made
    store(query, ...)                              keep what was computed
    persist(query)                                 a turn has ended: write its blocks to disk

Whose is it: a tenant uses a block that it computed itself, or one that `share_after` tenants
computed. Nothing is stored twice: who computes a known block becomes one of its owners.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.cache.costs import RestoreCosts
from engine.cache.disk_index import Row
from engine.cache.io_thread import CacheIO, Restored, Saved, Wanted
from engine.cache.memory_tier import MemoryTier
from engine.cache.nodes import Node, Nodes
from engine.cache.plan import Miss, Query, RestorePlan, plan_restore
from engine.cache.record import ArrayBytes, Kind, RecordKey
from engine.cache.statistics import CacheStatistics
from engine.core.blocks import Span

DEFAULT_SHARE_AFTER = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """Opaque to the cache but for its size."""

    content: Any
    num_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Captured:
    """What the model side copied for one block; None for a kind that is not wanted or not there."""

    span: Span
    slice: Payload | None
    boundary: Payload | None


@dataclasses.dataclass(frozen=True, slots=True)
class Capture:
    """A block worth copying: which kinds of it nobody has stored."""

    span: Span
    wants_slice: bool
    wants_boundary: bool


class PrefixCache:
    """Invariants: a node's in_memory kinds are those in the memory tier; a plan names only records
    that its tenant may use. A share_after of None means never."""

    def __init__(
        self,
        memory: MemoryTier,
        io: CacheIO | None,
        *,
        dump: Callable[[Any], Sequence[ArrayBytes]],
        revive: Callable[[Sequence[ArrayBytes]], Payload],
        rows: Iterable[Row] = (),
    ) -> None:
        self.memory = memory
        self.statistics = CacheStatistics()
        self.costs = RestoreCosts()
        self._io = io
        self._dump, self._revive = dump, revive
        self._nodes = Nodes()
        self._share_after: dict[str, int | None] = {}
        self._fetching: dict[str, RestorePlan] = {}
        self._fetched: list[str] = []
        self._fetched_tokens: dict[str, int] = {}
        for row in rows:
            self._add_row(row)

    # --- looking up

    def plan(
        self, query: Query, *, prefill_seconds: Callable[[int], float] | None = None
    ) -> RestorePlan:
        """What to restore. What is on disk is left out where computing it takes less time:
        `prefill_seconds` says how long a number of tokens takes."""
        plan = plan_restore(query, self._nodes, may_use=lambda node: self._may_use(node, query))
        if not plan.from_disk:
            return plan
        in_memory = self.plan_in_memory(query)
        gained_tokens = plan.num_tokens - in_memory.num_tokens
        if prefill_seconds and self._load_seconds(plan) > prefill_seconds(gained_tokens):
            return dataclasses.replace(in_memory, miss=Miss.SLOWER)
        return plan

    def plan_in_memory(self, query: Query) -> RestorePlan:
        return plan_restore(
            query, self._nodes, may_use=lambda node: self._may_use(node, query), memory_only=True
        )

    def payloads(self, plan: RestorePlan) -> tuple[list[tuple[Any, int]], Any | None]:
        """Slices with the tokens to use of each, and the boundary. All must be in memory."""
        slices = [(self.memory.get(record), num_tokens) for record, num_tokens in plan.slices]
        boundary = self.memory.get(plan.boundary) if plan.boundary else None
        return slices, boundary

    def used(self, query: Query, plan: RestorePlan, *, request_id: str = "") -> None:
        """A row was restored by this plan: count it and keep what it used young."""
        disk_tokens = min(self._fetched_tokens.pop(request_id, 0), plan.num_tokens)
        records = [record for record, _ in plan.slices]
        if plan.boundary is not None:
            records.append(plan.boundary)
        self.memory.touch(reversed(records))
        self.statistics.num_lookups += 1
        self.statistics.looked_up_tokens += query.num_tokens
        self.statistics.hit_disk_tokens += disk_tokens
        self.statistics.hit_memory_tokens += plan.num_tokens - disk_tokens
        self.statistics.misses[plan.miss] += 1

    # --- from disk

    def fetch(self, request_id: str, plan: RestorePlan, *, deadline_at: float) -> None:
        """Start reading what a plan has on disk; take_fetched() tells when that has ended."""
        assert self._io is not None, "a plan without a disk names nothing on disk"
        wanted = [Wanted(record, self._tokens_of(record)) for record in plan.from_disk]
        self._fetching[request_id] = plan
        self._io.restore(request_id, wanted, deadline_at=deadline_at)

    def forget_fetch(self, request_id: str) -> None:
        self._fetched_tokens.pop(request_id, None)
        if self._fetching.pop(request_id, None) is not None and self._io is not None:
            self._io.cancel(request_id)

    def take_fetched(self) -> list[str]:
        """Requests whose reading has ended; what could be read is in memory. Plan them again."""
        if self._io is not None:
            for result in self._io.take_results():
                if isinstance(result, Restored):
                    self._take_restored(result)
                else:
                    self._take_saved(result)
        fetched, self._fetched = self._fetched, []
        return fetched

    # --- keeping

    def missing(self, query: Query, *, boundaries: frozenset[int]) -> list[Capture]:
        """The blocks of a computed prompt that lack a record; `boundaries`: positions captured.

        The tenant has computed all of it, so it becomes an owner of what is already there.
        """
        wanted = []
        for span in query.spans():
            node = self._nodes.find(span)
            if node is not None:
                self._add_owner(node, query.tenant)
            held = node.in_memory if node is not None else set()
            is_boundary = query.needs.has_boundaries and span.stop in boundaries
            capture = Capture(
                span,
                wants_slice=query.needs.has_slices and Kind.SLICE not in held,
                wants_boundary=is_boundary and Kind.BOUNDARY not in held,
            )
            if capture.wants_slice or capture.wants_boundary:
                wanted.append(capture)
        return wanted

    def store(self, query: Query, captured: Sequence[Captured]) -> None:
        for block in captured:
            for kind, payload in ((Kind.SLICE, block.slice), (Kind.BOUNDARY, block.boundary)):
                if payload is not None:
                    self._hold(query, block.span, kind, payload)

    def persist(self, query: Query) -> None:
        """Hand the records of this prompt that are not on disk to the writer."""
        if self._io is None:
            return
        for span in query.spans():
            node = self._nodes.find(span)
            if node is None:
                continue
            for kind in sorted(node.in_memory - node.on_disk):
                self._save(node, kind)

    # --- rules and people

    def set_share_after(self, model: str, share_after: int | None) -> None:
        self._share_after[model] = share_after

    def forget_tenant(self, tenant: bytes) -> int:
        """Delete what only this tenant owns, in both tiers; how many records went."""
        records: list[RecordKey] = []
        for node in self._nodes:
            if tenant not in node.owners:
                continue
            node.owners.discard(tenant)
            if not node.owners:
                records += self._records(node)
            else:
                self._write_owners(node)
        self._remove(records)
        return len(records)

    def clear(self, model: str) -> None:
        """Remove what is kept of a model, in both tiers."""
        nodes = [node for node in self._nodes if node.model == model]
        self._remove([record for node in nodes for record in self._records(node)])

    # --- inside

    def _may_use(self, node: Node, query: Query) -> bool:
        share_after = self._share_after.get(node.model, DEFAULT_SHARE_AFTER)
        is_shared = share_after is not None and len(node.owners) >= share_after
        return query.tenant in node.owners or is_shared

    def _load_seconds(self, plan: RestorePlan) -> float:
        num_bytes = sum(self._file_bytes(record) for record in plan.from_disk)
        return self.costs.load_seconds(num_bytes, len(plan.from_disk))

    def _file_bytes(self, record: RecordKey) -> int:
        node = self._nodes.get(record.block)
        return node.file_bytes.get(record.kind, 0) if node else 0

    def _tokens_of(self, record: RecordKey) -> bytes:
        node = self._nodes.get(record.block)
        assert node is not None, "a plan names known blocks only"
        return node.tokens

    def _hold(self, query: Query, span: Span, kind: Kind, payload: Payload) -> None:
        node = self._nodes.obtain(
            key=span.key, parent=span.parent, tokens=span.token_bytes, model=query.model
        )
        node.in_memory.add(kind)
        self._add_owner(node, query.tenant)
        self._put(node, kind, payload)

    def _put(self, node: Node, kind: Kind, payload: Payload) -> None:
        evicted = self.memory.put(node.record(kind), payload.content, num_bytes=payload.num_bytes)
        self._nodes.dropped(evicted, tier="memory")

    def _save(self, node: Node, kind: Kind) -> None:
        assert self._io is not None
        row = Row(
            record=node.record(kind),
            model=node.model,
            parent=node.parent,
            tokens=node.tokens,
            file_bytes=0,
            owners=frozenset(node.owners),
            used_at=time.time(),
        )
        if kind in node.saving:
            return
        is_queued = self._io.save(row, self._dump(self.memory.get(row.record)))
        if is_queued:
            node.saving.add(kind)
            self.statistics.num_saved += 1
        else:
            self.statistics.num_dropped += 1

    def _take_saved(self, saved: Saved) -> None:
        self._nodes.dropped(saved.evicted, tier="disk")
        node = self._nodes.get(saved.record.block)
        if node is not None:
            node.saving.discard(saved.record.kind)
        if not saved.is_persisted:
            self.statistics.num_dropped += 1
            return
        self.statistics.num_persisted += 1
        if node is None:  # left memory and was forgotten before the writer came to it
            self._remove_files([saved.record])
            return
        node.on_disk.add(saved.record.kind)
        node.file_bytes[saved.record.kind] = saved.file_bytes

    def _take_restored(self, result: Restored) -> None:
        plan = self._fetching.pop(result.request_id, None)
        self._nodes.dropped(result.missing, tier="disk")
        self.costs.learn(result.num_bytes, len(result.arrays), result.seconds)
        if plan is None:
            return
        self.statistics.num_restores += 1
        self.statistics.restore_seconds += result.seconds
        self.statistics.restored_bytes += result.num_bytes
        self.statistics.num_late_restores += len(result.arrays) < len(plan.from_disk)
        for record, arrays in zip(plan.from_disk, result.arrays, strict=False):
            self._promote(record, arrays)
        self._fetched.append(result.request_id)
        self._fetched_tokens[result.request_id] = plan.disk_tokens

    def _promote(self, record: RecordKey, arrays: Sequence[ArrayBytes]) -> None:
        node = self._nodes.get(record.block)
        if node is not None and record.kind not in node.in_memory:
            node.in_memory.add(record.kind)
            self._put(node, record.kind, self._revive(arrays))

    def _add_row(self, row: Row) -> None:
        node = self._nodes.obtain(
            key=row.record.block, parent=row.parent, tokens=row.tokens, model=row.model
        )
        node.on_disk.add(row.record.kind)
        node.file_bytes[row.record.kind] = row.file_bytes
        node.owners |= row.owners

    def _add_owner(self, node: Node, tenant: bytes) -> None:
        if node.add_owner(tenant):
            self._write_owners(node)

    def _write_owners(self, node: Node) -> None:
        if self._io is not None and node.on_disk:
            owners = frozenset(node.owners)
            self._io.maintain(lambda disk: disk.index.set_owners(node.key, owners))

    def _records(self, node: Node) -> list[RecordKey]:
        return [node.record(kind) for kind in sorted(node.in_memory | node.on_disk)]

    def _remove(self, records: list[RecordKey]) -> None:
        for record in records:
            self.memory.remove(record)
        self._nodes.dropped(records, tier="memory")
        self._nodes.dropped(records, tier="disk")
        self._remove_files(records)

    def _remove_files(self, records: list[RecordKey]) -> None:
        if self._io is not None and records:
            self._io.maintain(lambda disk: disk.remove(records))

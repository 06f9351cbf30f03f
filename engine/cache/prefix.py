"""The prefix cache: what of a prompt need not be computed again, over both tiers.

It does not know mlx: payloads are opaque, three callables compute them, hand one to the disk and
bring it back. It does not know people: owners are 16-byte names. Owner: the model thread; the disk
is behind CacheIO.

    plan(query)          -> RestorePlan            decide
    payloads(plan)       -> what to restore from   when everything is in memory
    fetch(id, plan)      -> then take_fetched()    when part of it is on disk
    missing(query, ...)  -> spans worth capturing  before a copy is made
    store(query, ...)                              keep what was computed
    opening(query), store_opening(query, ...)      the logits behind a whole prompt
    persist(query)                                 a turn has ended: write its blocks to disk

Whose is it: owners.py. Nothing is stored twice: who computes a known block becomes one of its
owners.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine import wire
from engine.cache.captures import Capture, Captured, Contents, Payload
from engine.cache.clearing import Clearing
from engine.cache.costs import RestoreCosts
from engine.cache.disk_index import CHAIN_STEP_SECONDS, Row
from engine.cache.fetches import Fetches
from engine.cache.io_thread import CacheIO, Read, Restored, Result, Saved, Trimmed, Wanted
from engine.cache.memory_tier import MemoryTier
from engine.cache.node import Node
from engine.cache.nodes import Nodes
from engine.cache.plan import Miss, Query, RestorePlan, plan_restore
from engine.cache.record import Kind, RecordKey
from engine.cache.records import Records
from engine.cache.statistics import CacheStatistics

_SLICE, _BOUNDARY, _OPENING = Kind
_NO_NODES = Nodes()
BOTH_TIERS = (wire.CacheTier.MEMORY, wire.CacheTier.DISK)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelRules:
    """How one model's prefixes are kept. A `share_after` of None means never."""

    share_after: int | None = wire.SHARE_AFTER
    memory_share: float = 1.0
    disk_share: float = 1.0
    is_on_disk: bool = True


class PrefixCache:
    """Invariant: a plan names only records that its request may use."""

    def __init__(
        self,
        memory: MemoryTier,
        io: CacheIO | None,
        *,
        contents: Contents,
        rows: Iterable[Row] = (),
    ) -> None:
        self.memory = memory
        self.io = io
        self.statistics = CacheStatistics()
        self.costs = RestoreCosts()
        self.roots: dict[str, bytes] = {}  # by model, where its chains begin
        self._records = Records(memory, io, self.statistics, contents=contents, rows=rows)
        self.nodes = self._records.nodes
        self._rules: dict[str, ModelRules] = {}
        self._clearing = Clearing(self._records)
        self._fetches = Fetches(io)
        self._pinned: dict[str, list[RecordKey]] = {}  # by request_id

    # --- looking up

    def plan(
        self,
        query: Query,
        *,
        may_open: bool = False,
        prefill_seconds: Callable[[int], float] | None = None,
    ) -> RestorePlan:
        """What to restore; `may_open`: also the whole prompt, where its opening is kept. What is on
        disk is left out where computing it takes less time, and then the disk's speed is doubted:
        `prefill_seconds` says how long a number of tokens takes from the prompt's beginning."""
        whole = self._whole_plan(query) if may_open else None
        plan = whole or plan_restore(query, self._known_of(query))
        if not plan.from_disk:
            return plan
        in_memory = self.plan_in_memory(query)
        if in_memory.num_tokens >= plan.num_tokens:
            return in_memory
        if prefill_seconds is not None:
            gained = prefill_seconds(plan.num_tokens) - prefill_seconds(in_memory.num_tokens)
            if self.load_seconds(plan) > gained:
                self.costs.note_passed_over()
                return dataclasses.replace(in_memory, miss=Miss.SLOWER)
        return plan

    def plan_in_memory(self, query: Query) -> RestorePlan:
        return plan_restore(query, self._known_of(query), memory_only=True)

    def payloads(self, plan: RestorePlan) -> tuple[list[tuple[Any, int]], Any | None]:
        """Slices with the tokens to use of each, and the boundary. All must be in memory."""
        slices = [(self.memory.get(record), num_tokens) for record, num_tokens in plan.slices]
        boundary = self.memory.get(plan.boundary) if plan.boundary else None
        return slices, boundary

    def used(
        self,
        query: Query,
        plan: RestorePlan,
        *,
        begun: wire.PrefixUse | None = None,
        request_id: str = "",
    ) -> wire.PrefixUse:
        """A row is restored by this plan: count it, keep what it uses until release().

        `begun` is how the request began: the disk's reasons are better known than memory's.
        """
        disk_tokens = min(self._fetches.take_disk_tokens(request_id), plan.num_tokens)
        miss = plan.miss
        if miss is not Miss.NONE and begun is not None and begun.miss == Miss.SLOWER:
            miss = Miss.SLOWER
        if miss is not Miss.NONE:
            miss = self._fetches.fault(request_id) or miss
        self._keep_young(plan, request_id)
        self.statistics.models[query.model].count(
            asked_tokens=query.num_tokens,
            hit_tokens=plan.num_tokens,
            disk_tokens=disk_tokens,
            miss=miss,
        )
        self.statistics.count_missed(
            query.model,
            miss,
            query.num_tokens - plan.num_tokens,
            request_id=request_id,
            is_racing=self.is_fetching(request_id),
        )
        told_tokens = disk_tokens if begun is None else max(disk_tokens, begun.disk_tokens)
        return _prefix_use(plan, miss, told_tokens)

    def used_late(
        self, plan: RestorePlan, *, gained_tokens: int, request_id: str
    ) -> wire.PrefixUse:
        """A row that had begun to compute goes on from what came from disk meanwhile."""
        self._keep_young(plan, request_id)
        self.statistics.count_late(request_id, gained_tokens)
        return _prefix_use(plan, plan.miss, gained_tokens)

    def count_fault(self, model: str) -> None:
        """Something here has raised."""
        self.statistics.count_fault(model)

    def release(self, request_id: str) -> None:
        """The request has ended: what it used may leave, what it still wants from disk is void."""
        self._fetches.forget(request_id)
        self.statistics.end_race(request_id)
        self.memory.unpin(reversed(self._pinned.pop(request_id, [])))

    # --- from disk

    def fetch(self, request_id: str, plan: RestorePlan, *, deadline_at: float) -> None:
        """Start reading what a plan has on disk; take_fetched() tells when that has ended."""
        wanted = [Wanted(record, self._tokens_of(record)) for record in plan.from_disk]
        self._fetches.start(request_id, plan, wanted, deadline_at=deadline_at)

    def is_unreadable(self, request_id: str) -> bool:
        """A part of what was wanted from disk could not be read."""
        return self._fetches.fault(request_id) is Miss.UNREADABLE

    def is_fetching(self, request_id: str) -> bool:
        return self._fetches.is_under_way(request_id)

    def take_fetched(self) -> list[str]:
        """Requests whose reading has ended; what could be read is in memory. Plan them again."""
        results = self.io.take_results() if self.io is not None else []
        if results:
            with self._records.computing():
                for result in results:
                    self._take(result)
        return self._fetches.take_ended()

    # --- keeping

    def missing(self, query: Query, *, boundaries: frozenset[int]) -> list[Capture]:
        """The blocks of a computed prompt worth copying; `boundaries`: positions captured.

        Its owners have computed all of it, so they own what is already there as well; of boundaries
        only those that they have captured: others tell where somebody else's prompt ended. What
        they may not use is copied though somebody else's copy is held: the time would tell of it.
        """
        needs, wanted = query.needs, []
        if self._clearing.is_of(query.model):
            return []
        for span in query.spans():
            node = self.nodes.find(span)
            wants_slice = needs.has_slices and not self._claim(node, _SLICE, query.owners)
            wants_boundary = (
                needs.has_boundaries
                and span.stop in boundaries
                and not self._claim(node, _BOUNDARY, query.owners)
            )
            if wants_slice or wants_boundary:
                wanted.append(Capture(span, wants_slice, wants_boundary))
        return wanted

    def store(self, query: Query, captured: Sequence[Captured]) -> None:
        """The end of the prompt first: of one that is never used, the beginning leaves last."""
        with self._records.computing():
            for block in reversed(captured):
                for kind, payload in ((_SLICE, block.slice), (_BOUNDARY, block.boundary)):
                    if payload is not None:
                        self._records.hold(
                            block.span, kind, payload, model=query.model, owners=query.owners
                        )
                if not query.needs.has_boundaries:
                    self._records.drop_outgrown(block.span, query.owners)

    def opening(self, query: Query) -> Any | None:
        """The logits that follow the whole prompt, where they are in memory for this request and
        all of its row can be filled."""
        record = self._opening(query)
        if record is None or self.plan_in_memory(query.behind()).num_tokens < query.num_tokens - 1:
            return None
        self._records.touch([record])
        return self.memory.get(record)

    def store_opening(self, query: Query, payload: Payload) -> None:
        if self._clearing.is_of(query.model):
            return
        span = query.chain.opening(query.num_tokens)
        with self._records.computing():
            self._records.hold(span, _OPENING, payload, model=query.model, owners=query.owners)

    def drop(self, query: Query, *, request_id: str) -> None:
        """Remove all that is kept of this prompt, whoever's, and all that the request uses."""
        spans = [*query.spans(), query.chain.opening(query.num_tokens)]
        nodes = [node for span in spans if (node := self.nodes.find(span)) is not None]
        records = {record for node in nodes for record in node.records()}
        self._records.remove([*records.union(self._pinned.get(request_id, []))])

    def persist(self, query: Query) -> None:
        """Hand the records of this prompt that are not on disk to the writer."""
        self._records.write_owners()
        if not self._rules_of(query.model).is_on_disk:
            return
        used_at = self._records.next_use()
        spans = [*query.spans()]
        if query.needs.has_boundaries:  # elsewhere what follows the last token is soon computed
            spans.append(query.chain.opening(query.num_tokens))
        for place, span in enumerate(spans):
            if (node := self.nodes.find(span)) is not None:
                self._records.save(node, used_at=used_at - place * CHAIN_STEP_SECONDS)

    def hold_writes(self, is_holding: bool) -> None:
        """Whether requests are running, for which the writer waits a while."""
        if self.io is not None:
            self.io.hold_saves(is_holding)

    def hurry_writes(self) -> None:
        """What was handed over may be the next to leave memory."""
        if self.io is not None:
            self.io.hurry()

    # --- rules and people

    def set_rules(self, model: str, rules: ModelRules) -> None:
        was_on_disk = self._rules_of(model).is_on_disk
        self._rules[model] = rules
        self._clearing.set_share_after(model, rules.share_after)
        self._records.set_shares(model, memory=rules.memory_share, disk=rules.disk_share)
        if was_on_disk and not rules.is_on_disk:
            self.clear(model, tiers=(wire.CacheTier.DISK,))

    def forget_owner(self, owner: bytes) -> None:
        """Delete what is nobody's without this owner, in both tiers: at once what is little, the
        rest by go_on_clearing. From now on it is not used."""
        self._clearing.forget(owner)

    def clear(self, model: str, *, tiers: Sequence[wire.CacheTier] = BOTH_TIERS) -> None:
        """Remove what is kept of a model in these tiers; likewise."""
        self._clearing.clear(model, tiers)

    def go_on_clearing(self) -> None:
        """Once a turn."""
        self._clearing.go_on()

    @property
    def is_clearing(self) -> bool:
        return not self._clearing.is_done

    def shrink(self, to_bytes: int) -> int:
        """Let the memory tier go down to this size, for now; how many bytes it gave back."""
        return self._records.shrink(to_bytes)

    # --- inside

    def _known_of(self, query: Query) -> Nodes:
        """None while some of its model's are still to go."""
        return _NO_NODES if self._clearing.is_of(query.model) else self.nodes

    def _rules_of(self, model: str) -> ModelRules:
        return self._rules.get(model) or ModelRules()

    def _claim(self, node: Node | None, kind: Kind, owners: frozenset[bytes]) -> bool:
        """These have computed this record too. Whether it is in memory, and was theirs to use."""
        if node is None:
            return False
        may_use = node.may_end_for if kind is _BOUNDARY else node.may_be_used_by
        is_held = kind in node.in_memory and may_use(owners)
        self._records.add_owners(node, owners, kind=kind)
        return is_held

    def _opening(self, query: Query) -> RecordKey | None:
        node = self._known_of(query).find(query.chain.opening(query.num_tokens))
        if node is None or not node.has(_OPENING) or not node.may_be_used_by(query.owners):
            return None
        return node.record(_OPENING)

    def _whole_plan(self, query: Query) -> RestorePlan | None:
        """Of all the prompt, its last token too, where a row that ends there serves: what follows
        it is known. None where there is no such row."""
        record = self._opening(query) if query.needs.has_boundaries else None
        if record is None:
            return None
        plan = plan_restore(query.behind(), self._known_of(query))
        if plan.num_tokens < query.num_tokens:
            return None
        if self.memory.get(record) is not None:
            return plan
        return dataclasses.replace(plan, from_disk=(*plan.from_disk, record))

    def _keep_young(self, plan: RestorePlan, request_id: str) -> None:
        records = [record for record, _ in plan.slices]
        if plan.boundary is not None:
            records.append(plan.boundary)
        self._records.touch(records)
        if request_id:
            self.memory.unpin(reversed(self._pinned.pop(request_id, [])))
            self._pinned[request_id] = self.memory.pin(records)

    def load_seconds(self, plan: RestorePlan) -> float:
        num_bytes = sum(self._file_bytes(record) for record in plan.from_disk)
        return self.costs.load_seconds(num_bytes, len(plan.from_disk))

    def _file_bytes(self, record: RecordKey) -> int:
        node = self.nodes.get(record.block)
        return node.on_disk.get(record.kind, 0) if node else 0

    def _tokens_of(self, record: RecordKey) -> bytes:
        node = self.nodes.get(record.block)
        assert node is not None, "a plan names known blocks only"
        return node.tokens

    def _take(self, result: Result) -> None:
        match result:
            case Read():
                self._take_read(result)
            case Restored():
                self._take_restored(result)
            case Saved():
                self._records.take_saved(result)
            case Trimmed():
                self.nodes.dropped(result.records, tier=wire.CacheTier.DISK)

    def _take_read(self, read: Read) -> None:
        node = self.nodes.get(read.record.block)
        if not self._fetches.note_read(read.request_id, read.record) or node is None:
            return
        if read.record.kind not in node.in_memory:
            self._records.revive(node, read.record.kind, read.arrays)
        pinned = self.memory.pin([read.record])
        self._pinned.setdefault(read.request_id, []).extend(pinned)

    def _take_restored(self, result: Restored) -> None:
        self.nodes.dropped(result.missing, tier=wire.CacheTier.DISK)
        self.costs.learn(result.num_bytes, result.num_records, result.seconds)
        is_late = self._fetches.end(result)
        self.statistics.count_restore(result.seconds, is_late=is_late)


def _prefix_use(plan: RestorePlan, miss: Miss, disk_tokens: int) -> wire.PrefixUse:
    return wire.PrefixUse(
        nearest_tokens=plan.nearest_tokens, miss=miss.value, disk_tokens=disk_tokens
    )

"""What to restore for a prompt: pure decisions on the node tree. It moves no data.

    prompt   [ block | block | block | part of a block ][ at least one token to compute ]
    restore  [ slice | slice | slice | slice cut short ]+ boundary at its end, if there are any

The restore point is the longest one for which every layer kind has its record; where the longest
has not, an earlier one serves: the whole prefix is never given up for its end.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from engine.cache.node import Node
from engine.cache.nodes import Nodes
from engine.cache.record import Kind, RecordKey
from engine.cache.siblings import Siblings
from engine.core.blocks import Chain, Span

MAX_COMPARED = 64  # that may be used and agree in part, until one has its slice
LEAST_TOKENS = 32  # fewer are computed as quickly as they are copied
_SLICE, _BOUNDARY, _ = Kind  # Python is slow to look members up, and long ways ask often


class Miss(StrEnum):
    """Why a plan is not longer."""

    NONE = "none"  # all but the last token is covered
    UNKNOWN = "unknown"  # nobody has stored how it goes on
    NOT_OWNER = "not_owner"  # somebody has, but it is not this tenant's to use
    WALKED_BACK = "walked_back"  # known further, but not for every layer kind
    SLOWER = "slower"  # on disk, but computing it again is quicker
    LATE = "late"  # on disk, but it had not been read in time
    UNREADABLE = "unreadable"  # on disk, but damaged, foreign or gone
    FAULT = "fault"  # the cache itself has failed


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """Which record kinds a model's layers have."""

    has_slices: bool
    has_boundaries: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The first `num_tokens` of a chain, and whom the request stands for (owners.py)."""

    model: str
    chain: Chain
    num_tokens: int
    owners: frozenset[bytes]
    needs: Needs

    def behind(self) -> Query:
        """The same where the next token is known already: all of this may be restored."""
        return dataclasses.replace(self, num_tokens=self.num_tokens + 1)

    def spans(self) -> Iterator[Span]:
        return self.chain.spans(self.num_tokens)


class Step(NamedTuple):
    """One node of the way: tokens [start, stop) of the prompt; the last may be used in part."""

    node: Node
    start: int
    stop: int


@dataclasses.dataclass(slots=True)
class _Way:
    """What is known along a prompt, whose blocks are `spans`. `known` counts everybody's blocks,
    `nodes` and `usable` those that the request may use; blocks that agree in part are counted and
    are not among `nodes`."""

    spans: list[Span]
    nodes: list[Node] = dataclasses.field(default_factory=list)
    known: int = 0
    usable: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class RestorePlan:
    """`slices` in order with the tokens to use of each; `boundary` at the end of the last one."""

    num_tokens: int
    slices: tuple[tuple[RecordKey, int], ...]
    boundary: RecordKey | None
    from_disk: tuple[RecordKey, ...]
    miss: Miss
    nearest_tokens: int  # how far the nearest stored chain goes along, whoever owns it
    branch_tokens: int  # the same among what the request may use

    def tokens_of(self, record: RecordKey) -> int:
        """How many tokens a record brings; a boundary all of them where there is nothing else."""
        if not self.slices:
            return self.num_tokens
        return next((num_tokens for one, num_tokens in self.slices if one == record), 0)

    @property
    def is_cold(self) -> bool:
        return self.num_tokens == 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Tier:
    """Where records may come from."""

    nodes: Nodes
    memory_only: bool

    def has(self, node: Node, kind: Kind) -> bool:
        return kind in node.in_memory or (kind in node.on_disk and not self.memory_only)

    def under(self, span: Span) -> Siblings:
        return self.nodes.under(span.parent, memory_only=self.memory_only)


def plan_restore(query: Query, nodes: Nodes, *, memory_only: bool = False) -> RestorePlan:
    """The longest usable restore point of a prompt, one token always left to compute."""
    way = _follow(query, nodes)
    tier = _Tier(nodes, memory_only)
    if query.needs.has_boundaries:
        steps = _up_to_boundary(way, query, tier)
    else:
        steps = _up_to_slice(way, query, tier)
    if steps and steps[-1].stop < LEAST_TOKENS:
        steps = []
    num_tokens = steps[-1].stop if steps else 0
    return RestorePlan(
        num_tokens=num_tokens,
        slices=_slices(steps) if query.needs.has_slices else (),
        boundary=_boundary(steps) if query.needs.has_boundaries else None,
        from_disk=_from_disk(steps, query.needs),
        miss=_miss(query, num_tokens, way),
        nearest_tokens=way.known,
        branch_tokens=way.usable,
    )


def _follow(query: Query, nodes: Nodes) -> _Way:
    """The nodes along the prompt, its last token left out.

    A stranger's block costs the same search as one that is not there, but for a microsecond or two
    (for each where the model has no slices): no time to a first token tells of it.
    """
    way = _Way([*query.chain.spans(query.num_tokens - 1)])
    for span in way.spans:
        node = nodes.find(span)
        if node is not None and node.may_be_used_by(query.owners):
            way.nodes.append(node)
            way.usable = way.known = span.stop
            continue
        _count_usable(way, span, nodes, query.owners)
        if query.needs.has_slices:  # this block's is lacking
            _count_chain(way, nodes)
            break
        _count_known(way, span, nodes)
    return way


def _count_chain(way: _Way, nodes: Nodes) -> None:
    """How far the blocks go on, whoever owns them, to be told to administrators."""

    def is_unknown(span: Span) -> bool:
        return nodes.find(span) is None

    place = bisect.bisect_left(way.spans, True, lo=len(way.nodes), key=is_unknown)
    way.known = way.spans[place - 1].stop if place else 0
    for span in way.spans[place : place + 1]:
        _count_known(way, span, nodes)


def _count_known(way: _Way, span: Span, nodes: Nodes) -> None:
    agreed = nodes.under(span.parent).most_agreed_of_all(span.token_bytes)
    if agreed is not None:
        way.known = max(way.known, span.start + agreed)


def _count_usable(way: _Way, span: Span, nodes: Nodes, owners: frozenset[bytes]) -> None:
    """Also where they part at the block's beginning: others will part there too."""
    agreed = nodes.under(span.parent).most_agreed(span.token_bytes, owners)
    if agreed is not None:
        way.usable = max(way.usable, span.start + agreed)


def _up_to_slice(way: _Way, query: Query, tier: _Tier) -> list[Step]:
    """The blocks whose slices are there, then what agrees with the next block the longest."""
    steps = _with_slices(way, tier)
    for span in way.spans[len(steps) : len(steps) + 1]:
        nearest = tier.under(span).nearest(span.token_bytes, query.owners)
        for agreed, node in itertools.islice(nearest, MAX_COMPARED):
            if agreed and tier.has(node, _SLICE):
                return [*steps, Step(node, span.start, span.start + agreed)]
    return steps


def _up_to_boundary(way: _Way, query: Query, tier: _Tier) -> list[Step]:
    """The same up to the last boundary, be it at the end of a block or of a tail that the next
    block begins with. Without slices only that is needed."""
    has_slices = query.needs.has_slices
    steps = _with_slices(way, tier) if has_slices else []
    spans = way.spans[: len(steps) + 1] if has_slices else way.spans
    for place, span in reversed([*enumerate(spans)]):
        for node in tier.under(span).beginnings(span.token_bytes, query.owners):
            can_end = node.may_end_for(query.owners) and tier.has(node, _BOUNDARY)
            if can_end and (not has_slices or tier.has(node, _SLICE)):
                return [*steps[:place], Step(node, span.start, span.start + node.num_tokens)]
    return []


def _with_slices(way: _Way, tier: _Tier) -> list[Step]:
    """Where a model has slices, the nodes of a way are those of its first spans."""
    there = itertools.takewhile(lambda node: tier.has(node, _SLICE), way.nodes)
    return [Step(node, span.start, span.stop) for node, span in zip(there, way.spans, strict=False)]


def _slices(way: list[Step]) -> tuple[tuple[RecordKey, int], ...]:
    return tuple((RecordKey(node.key, _SLICE), stop - start) for node, start, stop in way)


def _boundary(way: list[Step]) -> RecordKey | None:
    return way[-1].node.record(_BOUNDARY) if way else None


def _from_disk(way: list[Step], needs: Needs) -> tuple[RecordKey, ...]:
    nodes = [step.node for step in way]
    wanted = [(node, _SLICE) for node in nodes if needs.has_slices]
    wanted += [(node, _BOUNDARY) for node in nodes[-1:] if needs.has_boundaries]
    return tuple(node.record(kind) for node, kind in wanted if kind not in node.in_memory)


def _miss(query: Query, num_tokens: int, way: _Way) -> Miss:
    if num_tokens >= query.num_tokens - 1:
        return Miss.NONE
    if num_tokens < way.usable and way.usable >= LEAST_TOKENS:
        return Miss.WALKED_BACK
    return Miss.NOT_OWNER if way.known > way.usable else Miss.UNKNOWN

"""What to restore for a prompt: pure decisions on the node tree. It moves no data.

    prompt   [ block | block | block | part of a block ][ at least one token to compute ]
    restore  [ slice | slice | slice | slice cut short ]+ boundary at its end, if there are any

The restore point is the longest one for which every layer kind has its record; where the longest
has not, an earlier one serves: the whole prefix is never given up for its end.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from engine.cache.nodes import Node, Nodes
from engine.cache.record import Kind, RecordKey
from engine.core.blocks import Chain, Span, common_tokens

MAX_CHILDREN_COMPARED = 64
MAX_STRANGERS_COMPARED = 4  # behind the end: a few microseconds that no first token tells of
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
    """What is known along a prompt. `known` counts everybody's blocks, `steps` and `usable` those
    that the request may use; only `usable` counts blocks that agree in part. Behind the end nothing
    can be restored."""

    steps: list[Step] = dataclasses.field(default_factory=list)
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


def plan_restore(
    query: Query,
    nodes: Nodes,
    *,
    may_use: Callable[[Node], bool],
    memory_only: bool = False,
) -> RestorePlan:
    """The longest usable restore point of a prompt, one token always left to compute."""
    way = _follow(query, nodes, may_use)

    def has(node: Node, kind: Kind) -> bool:
        return kind in node.in_memory or (kind in node.on_disk and not memory_only)

    usable = _complete([*way.steps], query.needs, nodes, has=has, may_use=may_use)
    if usable and usable[-1].stop < LEAST_TOKENS:
        usable = []
    num_tokens = usable[-1].stop if usable else 0
    return RestorePlan(
        num_tokens=num_tokens,
        slices=_slices(usable) if query.needs.has_slices else (),
        boundary=_boundary(usable) if query.needs.has_boundaries else None,
        from_disk=_from_disk(usable, query.needs),
        miss=_miss(query, num_tokens, way),
        nearest_tokens=way.known,
        branch_tokens=way.usable,
    )


def _follow(query: Query, nodes: Nodes, may_use: Callable[[Node], bool]) -> _Way:
    """The nodes along the prompt, its last token left out.

    A stranger's block costs the same search as one that is not there: times tell nothing of it.
    """
    way = _Way()
    is_at_end = False
    for span in query.chain.spans(query.num_tokens - 1):
        node = nodes.find(span)
        if node is not None:
            way.known = span.stop
        if is_at_end:
            if node is None:
                _count_strangers(way, span, nodes)
                break
        elif node is not None and may_use(node):
            way.steps.append(Step(node, span.start, span.stop))
            way.usable = span.stop
        else:
            _take_nearest_child(way, span, query.needs, nodes, may_use)
            is_at_end = query.needs.has_slices  # for this block's slice is lacking
    return way


def _take_nearest_child(
    way: _Way, span: Span, needs: Needs, nodes: Nodes, may_use: Callable[[Node], bool]
) -> None:
    """Where the prompt leaves the known blocks: go on along the child that agrees the longest."""
    best: Step | None = None
    for node in itertools.islice(nodes.children(span.parent), MAX_CHILDREN_COMPARED):
        stop = _agreed_stop(node, span)
        way.known = max(way.known, stop)
        if not may_use(node):
            continue
        way.usable = max(way.usable, stop)
        is_whole = stop - span.start == node.num_tokens
        can_end_here = is_whole or not needs.has_boundaries
        if stop > (best.stop if best else span.start) and can_end_here:
            best = Step(node, span.start, stop)
    if best is not None:
        way.steps.append(best)


def _count_strangers(way: _Way, span: Span, nodes: Nodes) -> None:
    """Where the prompt leaves blocks that it may not use, to be told to administrators."""
    for node in itertools.islice(nodes.children(span.parent), MAX_STRANGERS_COMPARED):
        way.known = max(way.known, _agreed_stop(node, span))


def _agreed_stop(node: Node, span: Span) -> int:
    return span.start + common_tokens(node.tokens, span.token_bytes)


def _complete(
    way: list[Step],
    needs: Needs,
    nodes: Nodes,
    *,
    has: Callable[[Node, Kind], bool],
    may_use: Callable[[Node], bool],
) -> list[Step]:
    """The longest beginning of the way at whose end every layer kind can be restored."""
    if needs.has_slices:
        way = list(itertools.takewhile(lambda step: has(step.node, _SLICE), way))
    if not needs.has_boundaries:
        return way
    kinds = [_SLICE, _BOUNDARY] if needs.has_slices else [_BOUNDARY]
    while way and not has(way[-1].node, _BOUNDARY):
        last = way.pop()
        tails = [
            node
            for node in itertools.islice(nodes.children(last.node.parent), MAX_CHILDREN_COMPARED)
            if len(node.tokens) < len(last.node.tokens)
            and last.node.tokens.startswith(node.tokens)
            and all(has(node, kind) for kind in kinds)
            and may_use(node)
        ]
        if tails:
            longest = max(tails, key=lambda node: len(node.tokens))
            way.append(Step(longest, last.start, last.start + longest.num_tokens))
    return way


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
    if num_tokens < way.usable:
        return Miss.WALKED_BACK
    return Miss.NOT_OWNER if way.known > way.usable else Miss.UNKNOWN

"""What was ordered to go, or to be shared otherwise, a slice of it each turn: it may be much, and
every stream waits for it.

Until all of an order is done its models are neither looked up nor kept: nothing of it is used after
the order, nor left behind by it. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from engine.cache.node import Node
from engine.cache.owners import is_nobodys
from engine.cache.record import Kind, RecordKey
from engine.cache.records import Records
from engine.wire import CacheTier

SLICE_NODES = 128  # of one turn: a few milliseconds


@dataclasses.dataclass(frozen=True, slots=True)
class _Order:
    """`do` lets go of some nodes, or of what an owner had of them, or sees who may use them."""

    nodes: deque[Node]
    models: frozenset[str]
    do: Callable[[Sequence[Node]], None]


class Clearing:
    """Invariant: an order has nodes left to be looked at."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._orders: deque[_Order] = deque()
        self._left = SLICE_NODES  # of this turn

    @property
    def is_done(self) -> bool:
        return not self._orders

    def is_of(self, model: str) -> bool:
        """Whether an order is not done with this model's prefixes."""
        return any(model in order.models for order in self._orders)

    def clear(self, model: str, tiers: Sequence[CacheTier]) -> None:
        """Remove what is kept of a model in these tiers."""
        nodes = (node for node in self._records.nodes if node.model == model)
        self._begin(nodes, partial(self._remove, tiers=tiers))

    def forget(self, owner: bytes) -> None:
        """Delete what is nobody's without this owner, in both tiers."""
        nodes = (node for node in self._records.nodes if owner in node.owners)
        self._begin(nodes, partial(self._disown, owner=owner))

    def set_share_after(self, model: str, share_after: int | None) -> None:
        """How many persons make a block of this model everybody's; None: none do."""
        self._begin(self._records.nodes.set_share_after(model, share_after), self._renote)

    def go_on(self) -> None:
        """Another turn's slice."""
        self._left = SLICE_NODES
        self._work()

    def _begin(self, nodes: Iterable[Node], do: Callable[[Sequence[Node]], None]) -> None:
        left = deque(nodes)
        if left:
            self._orders.append(_Order(left, frozenset(node.model for node in left), do))
            self._work()

    def _work(self) -> None:
        while self._orders and self._left:
            order = self._orders[0]
            slice_ = [order.nodes.popleft() for _ in range(min(self._left, len(order.nodes)))]
            self._left -= len(slice_)
            order.do([node for node in slice_ if self._records.nodes.get(node.key) is node])
            if not order.nodes:
                self._orders.popleft()

    def _remove(self, nodes: Sequence[Node], tiers: Sequence[CacheTier]) -> None:
        self._records.remove([one for node in nodes for one in node.records()], tiers=tiers)

    def _renote(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._records.nodes.renote(node)

    def _disown(self, nodes: Sequence[Node], owner: bytes) -> None:
        records: list[RecordKey] = []
        waiting: list[RecordKey] = []  # to be written, as theirs still
        for node in nodes:
            if is_nobodys(node.owners - {owner}):
                records += node.records()
                continue
            waiting += map(node.record, node.saving)
            ended_there = owner in node.boundary_owners
            self._records.discard_owner(node, owner)
            if ended_there and is_nobodys(node.boundary_owners):
                records.append(node.record(Kind.BOUNDARY))
        self._records.remove(waiting, tiers=(CacheTier.DISK,))
        self._records.remove(records)
        self._records.write_owners()

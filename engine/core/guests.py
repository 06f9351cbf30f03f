"""A row beyond a model's number, for somebody who has none while another has several. Pure.

Whoever fills all rows with long answers would else keep everybody out until one of them ends. A
guest takes nothing from anybody: the next row that ends is given to nobody.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from engine import wire
from engine.core.sequence import Sequence

_CLASSES = tuple(wire.Priority)  # highest first


def most_guests(max_rows: int) -> int:
    """A model that computes one row at a time has no room for a second."""
    return max(1, max_rows // 4) if max_rows > 1 else 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """To one request of the queue: of none of these tenants, of this class or a higher one."""

    without_tenants: frozenset[str]
    lowest_class: wire.Priority

    def without(self, tenants: Iterable[str]) -> Invitation:
        """The same for none of these either."""
        return dataclasses.replace(self, without_tenants=self.without_tenants.union(tenants))

    def is_for(self, sequence: Sequence) -> bool:
        if sequence.tenant in self.without_tenants:
            return False
        return _CLASSES.index(sequence.priority) <= _CLASSES.index(self.lowest_class)


NO_INVITATIONS: Mapping[str, Invitation] = MappingProxyType({})  # by model


class Holders:
    """How many rows each tenant holds, in each class."""

    def __init__(self) -> None:
        self._rows: collections.Counter[tuple[str, wire.Priority]] = collections.Counter()
        self._invitation: Invitation | None = None
        self._is_decided = True

    def add(self, sequence: Sequence) -> None:
        self._rows[sequence.tenant, sequence.priority] += 1
        self._is_decided = False

    def remove(self, sequence: Sequence) -> None:
        holder = sequence.tenant, sequence.priority
        self._rows[holder] -= 1
        if not self._rows[holder]:
            del self._rows[holder]
        self._is_decided = False

    def clear(self) -> None:
        self._rows.clear()
        self._is_decided = False

    def is_newcomer(self, sequence: Sequence) -> bool:
        """Its row is the only one of its tenant's."""
        rows = (self._rows[sequence.tenant, priority] for priority in _CLASSES)
        return sum(rows) == 1

    @property
    def invitation(self) -> Invitation | None:
        """None while nobody holds several rows of one class. Looked at every turn."""
        if not self._is_decided:
            self._invitation, self._is_decided = self._decide(), True
        return self._invitation

    def _decide(self) -> Invitation | None:
        several = [priority for (_, priority), num_rows in self._rows.items() if num_rows > 1]
        if not several:
            return None
        return Invitation(
            without_tenants=frozenset(tenant for tenant, _ in self._rows),
            lowest_class=max(several, key=_CLASSES.index),
        )

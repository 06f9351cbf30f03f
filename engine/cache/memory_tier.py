"""The RAM tier: records under a byte budget, least recently used out first. Payloads are opaque.

Two segments, so that prompts that come once cannot wash out those that come back:

    [ probation: seen once | protected: used again, at most 4/5 of the budget ]

A record enters probation; a use moves it to protected; what protected cannot hold goes back to the
young end of probation. Eviction takes the old end of probation, then of protected.
Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from engine.cache.record import RecordKey

PROTECTED_SHARE = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    payload: Any
    num_bytes: int


class MemoryTier:
    """Invariants: used_bytes is the sum over both segments; a record is in exactly one of them;
    used_bytes <= budget_bytes after every call."""

    def __init__(self, *, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.num_evicted = 0
        self._probation: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected_bytes = 0

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def __contains__(self, record: RecordKey) -> bool:
        return record in self._probation or record in self._protected

    def put(self, record: RecordKey, payload: Any, *, num_bytes: int) -> list[RecordKey]:
        """Hold a record; what had to go for it, which may be the record itself."""
        if record in self:
            return []
        self._probation[record] = _Held(payload, num_bytes)
        self.used_bytes += num_bytes
        return self._shrink()

    def get(self, record: RecordKey) -> Any | None:
        """The payload, without counting as a use."""
        held = self._probation.get(record) or self._protected.get(record)
        return held and held.payload

    def touch(self, records: Iterable[RecordKey]) -> None:
        """Count a use of each. Give a chain's end first: then its beginning is the youngest."""
        for record in records:
            held = self._probation.pop(record, None)
            if held is not None:
                self._protected[record] = held
                self._protected_bytes += held.num_bytes
            elif record in self._protected:
                self._protected.move_to_end(record)
        self._demote()

    def remove(self, record: RecordKey) -> None:
        if (held := self._probation.pop(record, None)) is not None:
            self.used_bytes -= held.num_bytes
        elif (held := self._protected.pop(record, None)) is not None:
            self.used_bytes -= held.num_bytes
            self._protected_bytes -= held.num_bytes

    def _shrink(self) -> list[RecordKey]:
        excess_bytes = self.used_bytes - self.budget_bytes
        leaving: list[RecordKey] = []
        for record, held in self._oldest_first():
            if excess_bytes <= 0:
                break
            leaving.append(record)
            excess_bytes -= held.num_bytes
        for record in leaving:
            self.remove(record)
        self.num_evicted += len(leaving)
        return leaving

    def _demote(self) -> None:
        limit = int(self.budget_bytes * PROTECTED_SHARE)
        while self._protected_bytes > limit:
            record, held = self._protected.popitem(last=False)
            self._protected_bytes -= held.num_bytes
            self._probation[record] = held

    def _oldest_first(self) -> Iterator[tuple[RecordKey, _Held]]:
        yield from self._probation.items()
        yield from self._protected.items()

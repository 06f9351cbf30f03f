"""The RAM tier: records under a byte budget, least recently used out first. Payloads are opaque.

Two segments, so that prompts that come once cannot wash out those that come back:

    [ probation: seen once | protected: used again, at most 4/5 of the budget ]

A record enters probation; a use moves it to protected; what protected cannot hold goes back to the
young end of probation. Eviction takes the old end of probation, then of protected. Pins stay.
Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from engine.cache.record import RecordKey

PROTECTED_SHARE = 0.8


@dataclasses.dataclass(slots=True)
class _Held:
    payload: Any
    num_bytes: int
    model: str
    num_pins: int = 0


class MemoryTier:
    """Invariants: used_bytes is the sum over both segments; a record is in exactly one of them;
    used_bytes <= budget_bytes after every call unless only pinned records are left."""

    def __init__(self, *, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.num_evicted = 0
        self._probation: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected_bytes = 0
        self._model_bytes: Counter[str] = Counter()
        self._model_budget: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def __contains__(self, record: RecordKey) -> bool:
        return record in self._probation or record in self._protected

    def bytes_of(self, model: str) -> int:
        return self._model_bytes[model]

    def put(
        self, record: RecordKey, payload: Any, *, num_bytes: int, model: str
    ) -> list[RecordKey]:
        """Hold a record; what had to go for it, which may be the record itself."""
        if record in self:
            return []
        self._probation[record] = _Held(payload, num_bytes, model)
        self._count(model, num_bytes)
        return [*self._shrink_model(model), *self._shrink(self.budget_bytes)]

    def get(self, record: RecordKey) -> Any | None:
        """The payload, without counting as a use."""
        held = self._find(record)
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

    def pin(self, records: Iterable[RecordKey]) -> None:
        for record in records:
            if held := self._find(record):
                held.num_pins += 1

    def unpin(self, records: Iterable[RecordKey]) -> None:
        for record in records:
            if held := self._find(record):
                held.num_pins -= 1

    def remove(self, record: RecordKey) -> bool:
        for segment in (self._probation, self._protected):
            if held := segment.pop(record, None):
                self._count(held.model, -held.num_bytes)
                if segment is self._protected:
                    self._protected_bytes -= held.num_bytes
                return True
        return False

    def resize(self, budget_bytes: int) -> list[RecordKey]:
        """Set the budget; what had to go."""
        self.budget_bytes = budget_bytes
        self._demote()
        return self._shrink(budget_bytes)

    def set_model_budget(self, model: str, budget_bytes: int | None) -> list[RecordKey]:
        """Bound one model's share; what had to go. None: only the common budget bounds it."""
        self._model_budget.pop(model, None)
        if budget_bytes is not None:
            self._model_budget[model] = budget_bytes
        return self._shrink_model(model)

    def records_of(self, model: str) -> list[RecordKey]:
        return [record for record, held in self._oldest_first() if held.model == model]

    # --- making room

    def _shrink(self, budget_bytes: int) -> list[RecordKey]:
        return self._evict(self._oldest_first(), self.used_bytes - budget_bytes)

    def _shrink_model(self, model: str) -> list[RecordKey]:
        if model not in self._model_budget:
            return []
        candidates = ((key, held) for key, held in self._oldest_first() if held.model == model)
        return self._evict(candidates, self._model_bytes[model] - self._model_budget[model])

    def _evict(
        self, candidates: Iterator[tuple[RecordKey, _Held]], excess_bytes: int
    ) -> list[RecordKey]:
        leaving: list[RecordKey] = []
        while excess_bytes > 0 and (candidate := next(candidates, None)) is not None:
            record, held = candidate
            if held.num_pins == 0:
                leaving.append(record)
                excess_bytes -= held.num_bytes
        for record in leaving:
            self.remove(record)
        self.num_evicted += len(leaving)
        return leaving

    def _demote(self) -> None:
        limit = int(self.budget_bytes * PROTECTED_SHARE)
        while self._protected_bytes > limit and self._protected:
            record, held = self._protected.popitem(last=False)
            self._protected_bytes -= held.num_bytes
            self._probation[record] = held

    def _oldest_first(self) -> Iterator[tuple[RecordKey, _Held]]:
        yield from self._probation.items()
        yield from self._protected.items()

    def _find(self, record: RecordKey) -> _Held | None:
        return self._probation.get(record) or self._protected.get(record)

    def _count(self, model: str, num_bytes: int) -> None:
        self.used_bytes += num_bytes
        self._model_bytes[model] += num_bytes

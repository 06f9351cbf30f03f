"""The RAM tier: records under a byte budget, least recently used out first. Payloads are opaque.

Two segments, so that prompts that come once cannot wash out those that come back, and one for
what is being used:

    [ probation: seen once | protected: used again, at most 4/5 of the budget | pinned ]

A record enters probation; a use moves it to protected; what protected cannot hold goes back to the
young end of probation. Eviction takes the old end of probation, then of protected, and what is
pinned only when it must. A model that fills its share of the budget evicts its own records.
Owner: the model thread.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from engine.cache.record import RecordKey
from engine.cache.segment import Held, Segment

PROTECTED_SHARE = 0.8
PINNED_SHARE = 0.5


class MemoryTier:
    """Invariants: a record is in at most one of the segments; used_bytes <= budget_bytes after
    every call, and no model exceeds its share."""

    def __init__(self, *, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._most_bytes = budget_bytes
        self.num_evicted = 0
        self.model_bytes: Counter[str] = Counter()
        self._probation, self._protected, self._pinned = Segment(), Segment(), Segment()
        self._segments = (self._probation, self._protected, self._pinned)  # as they leave
        self._pins: Counter[RecordKey] = Counter()
        self._shares: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(len(one.records) for one in self._segments)

    def __contains__(self, record: RecordKey) -> bool:
        first, second, third = self._segments
        return record in first.records or record in second.records or record in third.records

    @property
    def used_bytes(self) -> int:
        return self._probation.num_bytes + self._protected.num_bytes + self._pinned.num_bytes

    @property
    def pinned_bytes(self) -> int:
        return self._pinned.num_bytes

    def set_share(self, model: str, share: float) -> list[RecordKey]:
        """The most of the budget that this model's records may fill; what had to go for it."""
        if share < 1:
            self._shares[model] = share
        else:
            self._shares.pop(model, None)
        return self._evict(self._excess_bytes(model), model=model)

    def hold_to(self, most_bytes: int) -> None:
        """What memory leaves to records now, within the budget: `put` keeps to it."""
        self._most_bytes = min(most_bytes, self.budget_bytes)

    @property
    def room_bytes(self) -> int:
        return self._most_bytes - self.used_bytes

    def put(
        self, record: RecordKey, payload: Any, *, num_bytes: int, model: str
    ) -> list[RecordKey]:
        """Hold a record; what had to go for it, which may be the record itself."""
        if record in self:
            return []
        self._probation.add(record, Held(payload, num_bytes, model))
        self.model_bytes[model] += num_bytes
        evicted = []
        if model in self._shares and (excess_bytes := self._excess_bytes(model)) > 0:
            evicted += self._evict(excess_bytes, model=model)
        if (excess_bytes := -self.room_bytes) > 0:
            evicted += self._evict(excess_bytes)
        return evicted

    def get(self, record: RecordKey) -> Any | None:
        """The payload, without counting as a use."""
        for segment in self._segments:
            if (held := segment.records.get(record)) is not None:
                return held.payload
        return None

    def touch(self, records: Iterable[RecordKey]) -> None:
        """Count a use of each. Give a chain's end first: then its beginning is the youngest."""
        for record in records:
            if (held := self._pop_unpinned(record)) is not None:
                self._protected.add(record, held)
        self._demote()

    def pin(self, records: Iterable[RecordKey]) -> list[RecordKey]:
        """Keep these until they are unpinned, as far as pins have room; which of them are kept."""
        limit = int(self.budget_bytes * PINNED_SHARE)
        pinned = []
        for record in records:
            held = self._probation.records.get(record) or self._protected.records.get(record)
            if held is not None and self._pinned.num_bytes + held.num_bytes <= limit:
                self._pop_unpinned(record)
                self._pinned.add(record, held)
            if record in self._pinned.records:
                self._pins[record] += 1
                pinned.append(record)
        return pinned

    def unpin(self, records: Iterable[RecordKey]) -> None:
        """What pin() returned; it was used just now. What has left meanwhile does not matter."""
        for record in records:
            if record not in self._pinned.records:
                continue
            self._pins[record] -= 1
            if not self._pins[record] and (held := self._pop_pinned(record)) is not None:
                self._protected.add(record, held)
        self._demote()

    def remove(self, record: RecordKey) -> None:
        held = self._pop_unpinned(record) or self._pop_pinned(record)
        if held is not None:
            self.model_bytes[held.model] -= held.num_bytes

    def shrink(self, to_bytes: int) -> list[RecordKey]:
        """Let go of records until no more than this is held; the budget stays. What went."""
        return self._evict(self.used_bytes - to_bytes)

    def _excess_bytes(self, model: str) -> int:
        return self.model_bytes[model] - int(self.budget_bytes * self._shares.get(model, 1.0))

    def _evict(self, excess_bytes: int, *, model: str | None = None) -> list[RecordKey]:
        if excess_bytes <= 0:
            return []
        leaving: list[RecordKey] = []
        for record, held in self._oldest_first(model):
            if excess_bytes <= 0:
                break
            leaving.append(record)
            excess_bytes -= held.num_bytes
        for record in leaving:
            self.remove(record)
        self.num_evicted += len(leaving)
        return leaving

    def _oldest_first(self, model: str | None) -> Iterable[tuple[RecordKey, Held]]:
        return itertools.chain.from_iterable(one.of(model).items() for one in self._segments)

    def _pop_unpinned(self, record: RecordKey) -> Held | None:
        segment = self._protected if record in self._protected.records else self._probation
        return segment.pop(record)

    def _pop_pinned(self, record: RecordKey) -> Held | None:
        self._pins.pop(record, None)
        return self._pinned.pop(record)

    def _demote(self) -> None:
        limit = int(self.budget_bytes * PROTECTED_SHARE)
        while self._protected.num_bytes > limit:
            record, held = next(iter(self._protected.records.items()))
            self._protected.pop(record)
            self._probation.add(record, held)

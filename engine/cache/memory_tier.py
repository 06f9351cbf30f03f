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

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.cache.record import RecordKey

PROTECTED_SHARE = 0.8
PINNED_SHARE = 0.5


class _Held(NamedTuple):
    payload: Any
    num_bytes: int
    model: str


class MemoryTier:
    """Invariants: used_bytes is the sum over the segments; a record is in exactly one of them;
    used_bytes <= budget_bytes after every call, and no model exceeds its share."""

    def __init__(self, *, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._most_bytes = budget_bytes
        self.used_bytes = 0
        self.pinned_bytes = 0
        self.num_evicted = 0
        self.model_bytes: Counter[str] = Counter()
        self._probation: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._pinned: OrderedDict[RecordKey, _Held] = OrderedDict()
        self._protected_bytes = 0
        self._pins: Counter[RecordKey] = Counter()
        self._shares: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected) + len(self._pinned)

    def __contains__(self, record: RecordKey) -> bool:
        return record in self._probation or record in self._protected or record in self._pinned

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
        self._probation[record] = _Held(payload, num_bytes, model)
        self.used_bytes += num_bytes
        self.model_bytes[model] += num_bytes
        evicted = []
        if model in self._shares and (excess_bytes := self._excess_bytes(model)) > 0:
            evicted += self._evict(excess_bytes, model=model)
        if (excess_bytes := -self.room_bytes) > 0:
            evicted += self._evict(excess_bytes)
        return evicted

    def get(self, record: RecordKey) -> Any | None:
        """The payload, without counting as a use."""
        for segment in (self._probation, self._protected, self._pinned):
            if (held := segment.get(record)) is not None:
                return held.payload
        return None

    def touch(self, records: Iterable[RecordKey]) -> None:
        """Count a use of each. Give a chain's end first: then its beginning is the youngest."""
        for record in records:
            if (held := self._probation.pop(record, None)) is not None:
                self._protect(record, held)
            elif record in self._protected:
                self._protected.move_to_end(record)
        self._demote()

    def pin(self, records: Iterable[RecordKey]) -> list[RecordKey]:
        """Keep these until they are unpinned, as far as pins have room; which of them are kept."""
        limit = int(self.budget_bytes * PINNED_SHARE)
        pinned = []
        for record in records:
            held = self._find_unpinned(record)
            if held is not None and self.pinned_bytes + held.num_bytes <= limit:
                self._take(record)
                self._pinned[record] = held
                self.pinned_bytes += held.num_bytes
            if record in self._pinned:
                self._pins[record] += 1
                pinned.append(record)
        return pinned

    def unpin(self, records: Iterable[RecordKey]) -> None:
        """What pin() returned; it was used just now. What has left meanwhile does not matter."""
        for record in records:
            if record not in self._pinned:
                continue
            self._pins[record] -= 1
            if not self._pins[record]:
                self._protect(record, self._take_pinned(record))
        self._demote()

    def remove(self, record: RecordKey) -> None:
        if record in self._pinned:
            held = self._take_pinned(record)
        elif (unpinned := self._find_unpinned(record)) is not None:
            held = unpinned
            self._take(record)
        else:
            return
        self.used_bytes -= held.num_bytes
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
        for record, held in self._oldest_first():
            if excess_bytes <= 0:
                break
            if model is None or held.model == model:
                leaving.append(record)
                excess_bytes -= held.num_bytes
        for record in leaving:
            self.remove(record)
        self.num_evicted += len(leaving)
        return leaving

    def _oldest_first(self) -> Iterator[tuple[RecordKey, _Held]]:
        yield from self._probation.items()
        yield from self._protected.items()
        yield from self._pinned.items()

    def _find_unpinned(self, record: RecordKey) -> _Held | None:
        return self._probation.get(record) or self._protected.get(record)

    def _take(self, record: RecordKey) -> None:
        if (held := self._protected.pop(record, None)) is not None:
            self._protected_bytes -= held.num_bytes
        self._probation.pop(record, None)

    def _take_pinned(self, record: RecordKey) -> _Held:
        held = self._pinned.pop(record)
        self.pinned_bytes -= held.num_bytes
        del self._pins[record]
        return held

    def _protect(self, record: RecordKey, held: _Held) -> None:
        self._protected[record] = held
        self._protected_bytes += held.num_bytes

    def _demote(self) -> None:
        limit = int(self.budget_bytes * PROTECTED_SHARE)
        while self._protected_bytes > limit:
            record, held = self._protected.popitem(last=False)
            self._protected_bytes -= held.num_bytes
            self._probation[record] = held

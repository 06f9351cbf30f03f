"""A part of the RAM tier: records in the order of their use, those of each model apart, too.

A model that fills its share lets go of its own oldest, however much of others is older.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

from engine.cache.record import RecordKey


class Held(NamedTuple):
    payload: Any
    num_bytes: int
    model: str


class Segment:
    """`records`, the oldest first: add() and pop() alone change them. Invariant: a record has the
    same place among its model's as among all."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.records: OrderedDict[RecordKey, Held] = OrderedDict()
        self._by_model: defaultdict[str, OrderedDict[RecordKey, Held]] = defaultdict(OrderedDict)

    def add(self, record: RecordKey, held: Held) -> None:
        """As the youngest; it must not be there."""
        self.records[record] = self._by_model[held.model][record] = held
        self.num_bytes += held.num_bytes

    def pop(self, record: RecordKey) -> Held | None:
        held = self.records.pop(record, None)
        if held is not None:
            del self._by_model[held.model][record]
            self.num_bytes -= held.num_bytes
        return held

    def of(self, model: str | None) -> OrderedDict[RecordKey, Held]:
        """Those of a model, or all."""
        return self.records if model is None else self._by_model[model]

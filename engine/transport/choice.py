"""Which of the waiting requests an engine would rather have: those it has most of in memory.

What is in memory now is the next to leave. How far the queue follows is the queue's own matter
(lua/_queue.lua: `prefer`). It does not know tokens. Owner: the exchange's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine import wire
from engine.transport.connection import Scripts

# Says of a waiting request how many tokens of its prompt are in memory, at any later time.
Weigh = Callable[[wire.Work], Callable[[], int]]


class Choice:
    def __init__(self, scripts: Scripts, weigh: Weigh) -> None:
        self._scripts = scripts
        self._weigh = weigh
        self._models: frozenset[str] = frozenset()
        self._weights: dict[str, Callable[[], int]] = {}  # of what waits, as far as it was told

    def note_waiting(self, with_long: Iterable[str], *, among: Iterable[str]) -> None:
        """`among` these models those of which long prompts were left in the queue."""
        self._models = (self._models - frozenset(among)) | frozenset(with_long)

    def preferred(self, models: Iterable[str]) -> list[str]:
        """The best first; those of which nothing is in memory are not among them."""
        asked = [model for model in models if model in self._models]
        if not asked:
            return []
        former, self._weights = self._weights, {}
        tokens: dict[str, int] = {}
        for request_id, payload in self._scripts("upcoming", len(asked), *asked, *former):
            weight = former.get(request_id) or self._weight(payload)
            if weight is not None:
                self._weights[request_id] = weight
                tokens[request_id] = weight()
        warm = (request_id for request_id, num_tokens in tokens.items() if num_tokens)
        return sorted(warm, key=lambda request_id: -tokens[request_id])

    def _weight(self, payload: str | None) -> Callable[[], int] | None:
        return self._weigh(wire.decode(payload)) if payload else None

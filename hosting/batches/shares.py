"""Whose batch begins the next request: that of who has the least under way. Pure but for limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from django.conf import settings

from accounts.limits import allowance_for_request
from hosting.models import Batch, BatchLine


class Shares:
    """What is under way, counted in generations. Owner: one turn."""

    def __init__(self, lines: Mapping[Batch, Sequence[BatchLine]]) -> None:
        self._of_batch: Counter[Batch] = Counter()
        self._of_person: Counter[int] = Counter()
        for batch, some in lines.items():
            self.add(batch, sum(len(line.begun) for line in some))

    def add(self, batch: Batch, num_begun: int) -> None:
        self._of_batch[batch] += num_begun
        self._of_person[batch.user_id] += num_begun

    def next_of(self, batches: Sequence[Batch]) -> Batch | None:
        """None where nobody may begin more now."""
        if self._of_person.total() >= settings.BATCH_REQUESTS_AT_ONCE:
            return None
        free = [one for one in batches if self._of_person[one.user_id] < _most_at_once(one)]
        return min(free, key=self._place, default=None)

    def _place(self, batch: Batch) -> tuple[object, ...]:
        return self._of_person[batch.user_id], self._of_batch[batch], batch.created_at, batch.pk


def _most_at_once(batch: Batch) -> int:
    """Half of what the person may have at once: the other half is for who waits for an answer."""
    limits = allowance_for_request(batch.user, batch.api_key).effective
    caps = [one for one in (limits.max_concurrent, limits.max_queued) if one is not None]
    return max(1, min(caps, default=settings.BATCH_REQUESTS_AT_ONCE) // 2)

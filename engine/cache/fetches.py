"""Prefixes on their way from disk, one for each request that waits or computes meanwhile.

It does not know where the records go. Owner: the model thread; the disk is behind CacheIO.
"""

from __future__ import annotations

import dataclasses

from engine.cache.io_thread import CacheIO, Restored, Wanted
from engine.cache.plan import Miss, RestorePlan


@dataclasses.dataclass(slots=True)
class _Fetch:
    """`disk_tokens` is what has come; `fault` says why it is less than was wanted."""

    plan: RestorePlan
    is_under_way: bool = True
    disk_tokens: int = 0
    fault: Miss | None = Miss.LATE


class Fetches:
    """Invariant: a request is known from start() until forget()."""

    def __init__(self, io: CacheIO | None) -> None:
        self._io = io
        self._fetches: dict[str, _Fetch] = {}
        self._ended: list[str] = []

    def start(
        self, request_id: str, plan: RestorePlan, wanted: list[Wanted], *, deadline_at: float
    ) -> None:
        assert self._io is not None, "a plan without a disk names nothing on disk"
        self._fetches[request_id] = _Fetch(plan)
        self._io.restore(request_id, wanted, deadline_at=deadline_at)

    def end(self, result: Restored) -> RestorePlan | None:
        """What was wanted; None if nobody waits for it any more."""
        fetch = self._fetches.get(result.request_id)
        if fetch is None:
            return None
        is_whole = len(result.arrays) == len(fetch.plan.from_disk)
        fetch.is_under_way = False
        fetch.fault = None if is_whole else Miss.UNREADABLE if result.missing else Miss.LATE
        fetch.disk_tokens = fetch.plan.disk_tokens
        self._ended.append(result.request_id)
        return fetch.plan

    def disk_tokens(self, request_id: str) -> int:
        """So many tokens of what is in memory now came from disk for this request, at most."""
        fetch = self._fetches.get(request_id)
        return fetch.disk_tokens if fetch is not None else 0

    def fault(self, request_id: str) -> Miss | None:
        """Why less is in memory than the disk was asked for; None where nothing is lacking."""
        fetch = self._fetches.get(request_id)
        return fetch.fault if fetch is not None else None

    def is_under_way(self, request_id: str) -> bool:
        fetch = self._fetches.get(request_id)
        return fetch is not None and fetch.is_under_way

    def take_ended(self) -> list[str]:
        ended, self._ended = self._ended, []
        return ended

    def forget(self, request_id: str) -> None:
        fetch = self._fetches.pop(request_id, None)
        if fetch is not None and fetch.is_under_way and self._io is not None:
            self._io.cancel(request_id)

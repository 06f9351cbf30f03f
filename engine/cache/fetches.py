"""Prefixes on their way from disk, one for each request that waits or computes meanwhile.

It does not know where the records go. Owner: the model thread; the disk is behind CacheIO.
"""

from __future__ import annotations

import dataclasses

from engine.cache.io_thread import CacheIO, Restored, Wanted
from engine.cache.plan import Miss, RestorePlan
from engine.cache.record import RecordKey


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

    def note_read(self, request_id: str, record: RecordKey) -> bool:
        """One record has come; whether anybody still waits for it."""
        fetch = self._fetches.get(request_id)
        if fetch is not None:
            fetch.disk_tokens += fetch.plan.tokens_of(record)
        return fetch is not None

    def end(self, result: Restored) -> bool:
        """The reading has ended; whether it was too late for some of what was wanted."""
        fetch = self._fetches.get(result.request_id)
        if fetch is None:
            return False
        fetch.is_under_way = False
        if result.num_records == len(fetch.plan.from_disk):
            fetch.fault = None
        elif result.missing:
            fetch.fault = Miss.UNREADABLE
        self._ended.append(result.request_id)
        return fetch.fault is Miss.LATE

    def is_under_way(self, request_id: str) -> bool:
        fetch = self._fetches.get(request_id)
        return fetch is not None and fetch.is_under_way

    def take_disk_tokens(self, request_id: str) -> int:
        """So many tokens of what is in memory now came from disk for this request, at most; told
        once, for a row that was taken away finds them in memory."""
        fetch = self._fetches.get(request_id)
        if fetch is None:
            return 0
        taken, fetch.disk_tokens = fetch.disk_tokens, 0
        return taken

    def fault(self, request_id: str) -> Miss | None:
        """Why less is in memory than the disk was asked for; None where nothing is lacking."""
        fetch = self._fetches.get(request_id)
        return fetch.fault if fetch is not None else None

    def take_ended(self) -> list[str]:
        ended, self._ended = self._ended, []
        return ended

    def forget(self, request_id: str) -> None:
        fetch = self._fetches.pop(request_id, None)
        if fetch is not None and fetch.is_under_way and self._io is not None:
            self._io.cancel(request_id)

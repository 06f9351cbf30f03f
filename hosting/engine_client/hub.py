"""All event streams that one process follows, read by one blocking call and fanned out.

    Redis --XREAD over all keys--> reader task --> [queue] follower   (several per request)
          <---- XRANGE: what a follower missed before it joined, or while it was slow ----

Invariants: a follower yields each seq once and in order; a slow follower slows nobody.
It does not know who follows or why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import redis

from engine import wire
from hosting.engine_client.connection import (
    ANSWER_SECONDS,
    Connection,
    EngineUnavailable,
    connect_async,
    why_away,
)
from hosting.engine_client.follower import Follower, Numbered
from hosting.engine_client.reader import Reader

RANGE_COUNT = 256
RETRY_SECONDS = 0.2
LOST_SECONDS = 6.0  # a living engine restores what Redis lost long before
WAITING_LOST_SECONDS = 1.0
AWAY_SECONDS = 60.0
_WAITING = ("intake", "queued")


class StreamLost(Exception):
    """There is no event stream of this request any more."""


class Hub:
    """Owned by one event loop. It holds connections and a task while somebody follows, and
    `linger_seconds` longer: the next follower comes soon.
    """

    def __init__(self, redis_url: str, *, linger_seconds: float = 0.0) -> None:
        self._url = redis_url
        self._linger_seconds = linger_seconds
        self._num_following = 0
        self._redis: Connection = None
        self._reader: Reader | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[object] | None = None  # held, or it could be collected

    async def follow(self, request_id: str, after: int = -1) -> AsyncIterator[Numbered]:
        """The events above `after`, as they come, through the terminal one.

        Raises StreamLost when Redis does not know the request (any more), EngineUnavailable when
        Redis has been away for a minute.
        """
        self._open()
        follower = Follower(request_id, after=after)
        try:
            while not follower.is_done:
                for numbered in await self._next(follower):
                    yield numbered
        finally:
            await self._leave(follower)

    async def _next(self, follower: Follower) -> list[Numbered]:
        """What comes next; nothing now and then."""
        if follower.is_confirmed and (follower.is_live or follower.has_queued):
            events = await follower.take()
            if events or follower.is_done:
                return events
            follower.is_confirmed = False
        try:
            events = await self._look(follower)
            if not follower.is_confirmed:
                await asyncio.sleep(RETRY_SECONDS)
            return events
        except (redis.RedisError, TimeoutError) as error:
            if follower.redis_away.seconds() > AWAY_SECONDS:
                raise EngineUnavailable(why_away(error)) from error
            await asyncio.sleep(RETRY_SECONDS)
            return []

    async def _look(self, follower: Follower) -> list[Numbered]:
        """Read in one round trip what is there; from then on the reader brings what comes.

        Nothing fails once events are accepted: they count as handed on.
        """
        events_key = wire.Keys.events(follower.request_id)
        first = wire.entry_id(follower.after + 1)
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hmget(wire.Keys.request(follower.request_id), "state", "seq", "born")
            pipeline.xrange(events_key, min=first, count=RANGE_COUNT)
            async with asyncio.timeout(ANSWER_SECONDS):
                known, entries = await pipeline.execute()
        self._confirm(follower, *known)
        if not follower.is_confirmed or follower.is_live or follower.is_done:
            return []
        events = follower.accept(
            [(wire.entry_seq(entry), wire.decode(fields["e"])) for entry, fields in entries]
        )
        is_all = len(entries) < RANGE_COUNT and not follower.is_done
        if is_all and self._reader is not None and self._reader.join(follower):
            await self._reader.wake(self._redis)
        return events

    def _confirm(
        self, follower: Follower, state: str | None, next_seq: str | None, born: str | None
    ) -> None:
        """Whether Redis has the request, with all that was handed on of it. Raises StreamLost."""
        follower.redis_away.end()
        is_first_look = follower.born is None
        is_same = state is not None and (is_first_look or born == follower.born)
        follower.is_confirmed = is_same and int(next_seq or 0) > follower.after
        if not follower.is_confirmed:
            patience = 0.0 if is_first_look else _patience(state, is_same)
            if follower.request_missing.seconds() >= patience:
                raise StreamLost(follower.request_id)
            return
        follower.born = born
        follower.request_missing.end()
        if int(next_seq or 0) > follower.after + 1:
            follower.is_live = False  # something was missed: read the range
        elif state == "ended":
            follower.is_done = True

    def _open(self) -> None:
        self._num_following += 1
        if self._timer is not None:
            self._timer.cancel()
        if self._reader is None:
            self._redis = connect_async(self._url)
            self._reader = Reader(connect_async(self._url))

    async def _leave(self, follower: Follower) -> None:
        self._num_following -= 1
        if self._reader is not None:
            self._reader.leave(follower)
        if self._num_following:
            return
        if self._linger_seconds:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._linger_seconds, self._close_soon)
        else:
            await self._close()

    def _close_soon(self) -> None:
        self._closing = asyncio.ensure_future(self._close())

    def _close(self) -> Awaitable[object]:
        """What is open now; who follows meanwhile opens anew."""
        reader, connection = self._reader, self._redis
        self._reader = self._redis = None
        assert reader is not None
        return asyncio.gather(reader.close(), connection.aclose())


def _patience(state: str | None, is_same: bool) -> float:
    """How long a living engine may take to tell Redis what it forgot.

    What waits has no engine, or one that is slower than the ledger that submitted it again.
    """
    if state in _WAITING:
        return WAITING_LOST_SECONDS
    return LOST_SECONDS if is_same or state is None else 0.0

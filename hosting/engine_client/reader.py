"""The hub's one blocking read, in a task. It does not know how a follower catches up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid

import redis

from engine import wire
from hosting.engine_client.connection import ANSWER_SECONDS, Connection, why_away
from hosting.engine_client.follower import Follower

BLOCK_MS = 3000
NUDGE_SECONDS = 3.0  # a follower without events looks whether its request still exists
COUNT = 128
RETRY_SECONDS = 0.2
logger = logging.getLogger(__name__)


class Reader:
    """Owned by one event loop. The task runs from the first follower on until `close`."""

    def __init__(self, connection: Connection) -> None:
        self._redis = connection
        self._wake_key = wire.Keys.hub_wake(uuid.uuid4().hex)
        self._wake_cursor = "0-0"
        self._followers: dict[str, list[Follower]] = {}  # by stream key
        self._cursors: dict[str, str] = {}  # stream key: the last entry read
        self._next_nudge = time.monotonic() + NUDGE_SECONDS
        self._task: asyncio.Task[None] | None = None

    def join(self, follower: Follower) -> bool:
        """Fill the follower's queue from now on, unless it has to catch up first.

        True when the reader must be woken to notice.
        """
        key = wire.Keys.events(follower.request_id)
        cursor = self._cursors.get(key, follower.cursor)
        if wire.entry_born(cursor) != follower.born:  # what the others follow is no more
            self._doubt(key)
            cursor = follower.cursor
        if wire.entry_seq(cursor) > follower.after:
            return False
        is_new = key not in self._followers
        self._cursors[key] = cursor
        self._followers.setdefault(key, []).append(follower)
        follower.is_live = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="hub-reader")
            return False
        return is_new

    def leave(self, follower: Follower) -> None:
        follower.is_live = False
        key = wire.Keys.events(follower.request_id)
        followers = self._followers.get(key, [])
        if follower in followers:
            followers.remove(follower)
        if not followers:
            self._drop_key(key)

    async def wake(self, connection: Connection) -> None:
        """Let the blocking read begin anew, with the keys of now.

        Where Redis does not answer the read ends by itself: at once, or after BLOCK_MS.
        """
        with contextlib.suppress(redis.RedisError, TimeoutError):
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                connection.pipeline(transaction=False) as pipeline,
            ):
                pipeline.xadd(self._wake_key, {"wake": "1"}, maxlen=1, approximate=False)
                pipeline.expire(self._wake_key, 60)
                await pipeline.execute()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._redis.aclose()

    async def _run(self) -> None:
        """Reads until cancelled. Whatever else ends it sends the followers back to ranges."""
        try:
            while True:
                await self._turn()
        except Exception:
            logger.exception("the hub's reader died")
        finally:
            self._task = None
            for key in list(self._followers):
                self._detach_all(key)

    async def _turn(self) -> None:
        streams = {**self._cursors, self._wake_key: self._wake_cursor}
        try:
            # A machine that is lost says nothing of it
            async with asyncio.timeout(BLOCK_MS / 1000 + ANSWER_SECONDS):
                answer = await self._redis.xread(streams, count=COUNT, block=BLOCK_MS)
        except (redis.RedisError, TimeoutError) as error:
            if self._followers:
                logger.warning("events are not read, Redis is away: %s", why_away(error))
            self._doubt_all()
            await asyncio.sleep(RETRY_SECONDS)
            return
        for key, entries in answer or ():
            if key == self._wake_key:
                self._wake_cursor = entries[-1][0]
            elif key in self._followers:
                self._fan_out(key, entries)
        self._nudge_quiet()

    def _fan_out(self, key: str, entries: list[tuple[str, dict[str, str]]]) -> None:
        is_ended = False
        born = wire.entry_born(self._cursors[key])
        for entry, fields in entries:
            if wire.entry_born(entry) != born:  # Redis lost the request and was given it anew
                self._doubt(key)
                return
            numbered = (wire.entry_seq(entry), wire.decode(fields["e"]))
            is_ended = isinstance(numbered[1], wire.TERMINAL_EVENTS)
            self._cursors[key] = entry
            for follower in list(self._followers[key]):
                follower.is_quiet = False
                if not follower.offer(numbered):
                    follower.is_live = False
                    self._followers[key].remove(follower)
        if is_ended:
            self._detach_all(key)
        elif not self._followers[key]:
            self._drop_key(key)

    def _nudge_quiet(self) -> None:
        if time.monotonic() < self._next_nudge:
            return
        self._next_nudge = time.monotonic() + NUDGE_SECONDS
        for follower in [one for followers in self._followers.values() for one in followers]:
            if follower.is_quiet:
                follower.nudge()
            follower.is_quiet = True

    def _doubt_all(self) -> None:
        """Redis may come back without what it had."""
        for key in list(self._followers):
            self._doubt(key)

    def _doubt(self, key: str) -> None:
        """Each follower has to look."""
        for follower in self._followers.get(key, []):
            follower.is_confirmed = False
        self._detach_all(key)

    def _detach_all(self, key: str) -> None:
        for follower in self._followers.get(key, []):
            follower.is_live = False
            follower.nudge()
        self._drop_key(key)

    def _drop_key(self, key: str) -> None:
        self._followers.pop(key, None)
        self._cursors.pop(key, None)

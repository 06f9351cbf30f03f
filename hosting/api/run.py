"""One call from its acceptance to its end, in any dialect. What the client leaves is cancelled,
unless the call has a key under which it may come again (actions/repeats.py).

Headers go out when intake has accepted; waiting afterwards is in the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from django.db import Error
from django.http import StreamingHttpResponse
from rest_framework.response import Response

from engine import wire
from hosting.actions.database_threads import in_database_thread
from hosting.actions.meters import Meter
from hosting.actions.repeats import RENEW_SECONDS, Served, hold, start_or_repeat
from hosting.actions.served import (
    abandon_generations,
    cancel_generations,
    start_served,
    submit_again,
)
from hosting.actions.web_processes import this_web_process
from hosting.api import errors
from hosting.api.dialect import Call, History
from hosting.api.following import Following, Numbered
from hosting.api.image_fields import error_of
from hosting.api.timings import timing_headers
from hosting.engine_client import EngineUnavailable, StreamLost

ADMISSION_SECONDS = 10.0
READ_LETTERS_PER_SECOND = 100_000  # by intake, where it is busy with others' texts too
HEARTBEAT_SECONDS = 10.0
_ENGINE_POLL_SECONDS = 0.25
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

logger = logging.getLogger(__name__)
_leaving: set[asyncio.Future[None]] = set()  # the loop itself keeps tasks only loosely


class Run:
    """One accepted call: its generations and their events. Owner: the event loop."""

    def __init__(self, call: Call, served: Served) -> None:
        self._generations = served.generations
        self._is_repeat = served.is_repeat
        self._key = call.repeat_key
        self._order = call.orders[0]
        num_letters = sum(len(one.request) for one in served.generations)
        self._admission_seconds = ADMISSION_SECONDS + num_letters / READ_LETTERS_PER_SECOND
        self._reply = call.make_reply(served.generations)
        self._started = self._held_at = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._following = Following(
            [str(one.pk) for one in served.generations], ask_again=in_database_thread(submit_again)
        )
        self._backlog: list[Numbered] = []
        self._has_left = False

    @property
    def meters(self) -> tuple[Meter, ...]:
        """What the caller's limits have left; nothing where none were asked."""
        return self._generations[-1].meters

    @classmethod
    async def start(cls, call: Call, served: Served | None) -> Run:
        """Acceptance of what was begun; begins it where no engine lived. Raises ApiError."""
        run = cls(call, served or await _begin_when_an_engine_lives(call))
        async with contextlib.AsyncExitStack() as unless_accepted:
            unless_accepted.push_async_callback(run._leave)
            await run._admission()
            unless_accepted.pop_all()
        return run

    async def whole(self) -> Response:
        """The answer in one piece, after the end of every choice. Raises ApiError."""
        histories: list[History] = [[] for _ in self._generations]
        try:
            async for numbered in self._events():
                if numbered is not None:
                    choice, event = numbered
                    histories[choice].append(event)
        finally:
            await self._leave()
        return Response(self._reply.whole(histories), headers=self._headers(histories))

    def stream(self) -> EventStream:
        headers = _STREAM_HEADERS | self._repeat_headers()
        return EventStream(self._lines(), headers=headers, on_close=self._end_soon)

    async def _lines(self) -> AsyncIterator[bytes]:
        reply, heard_at = self._reply, time.monotonic()
        try:
            async for numbered in self._events():
                lines = reply.lines(*numbered) if numbered else ""
                # Events that say nothing in this dialect are no sign of life
                if not lines and time.monotonic() - heard_at >= HEARTBEAT_SECONDS:
                    lines = reply.heartbeat()
                if lines:
                    yield lines.encode()
                    heard_at = time.monotonic()
            yield reply.closing().encode()
        except errors.ApiError as error:
            yield reply.error(error).encode()
        except (EngineUnavailable, StreamLost):
            yield reply.error(errors.engine_unavailable()).encode()
        except Exception:
            logger.exception("stream ended", extra={"request_id": self._generations[0].pk})
            yield reply.error(errors.internal()).encode()
        finally:
            await self._leave()  # a process that stops waits for this, and not for `_end`

    def _end_soon(self) -> None:
        """Called once when the response is closed, from any thread, however it ended."""
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        leaving = asyncio.ensure_future(self._leave())
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)

    async def _events(self) -> AsyncIterator[Numbered | None]:
        """All events; None after a silence. Raises ApiError for a bad end."""
        for numbered in self._backlog:
            yield numbered
        while not self._following.is_over:
            next_one = await self._following.next(within_seconds=HEARTBEAT_SECONDS)
            await self._hold()
            if next_one is not None:
                self._check_goes_on(next_one[1])
            yield next_one

    async def _admission(self) -> None:
        """Wait for the first event of every choice. Raises ApiError when one is no Accepted."""
        until = time.monotonic() + self._admission_seconds
        unanswered = set(range(len(self._generations)))
        while unanswered:
            numbered = await self._next_before(until)
            if numbered is None:
                await in_database_thread(abandon_generations)(self._generations)
                raise errors.engine_unavailable()
            self._check_goes_on(numbered[1])
            unanswered.discard(numbered[0])
            self._backlog.append(numbered)

    async def _next_before(self, until: float) -> Numbered | None:
        try:
            return await self._following.next(within_seconds=until - time.monotonic())
        except (EngineUnavailable, StreamLost):
            return None

    def _check_goes_on(self, event: wire.Event) -> None:
        if isinstance(event, (wire.Refused, wire.Failed)):
            raise error_of(event, self._order)
        if isinstance(event, wire.Finished) and event.reason == wire.FinishReason.CANCELLED:
            raise errors.cancelled()

    async def _leave(self) -> None:
        """Stop reading, and cancel what has not ended."""
        await self._following.close()
        if self._is_abandoned and not self._has_left:
            self._has_left = True
            await asyncio.shield(in_database_thread(cancel_generations)(self._generations))

    @property
    def _is_abandoned(self) -> bool:
        return not self._following.is_over and self._key is None

    async def _hold(self) -> None:
        """Now and then say that somebody still follows. A database away ends no stream."""
        if self._key is not None and time.monotonic() - self._held_at > RENEW_SECONDS:
            self._held_at = time.monotonic()
            with contextlib.suppress(Error):
                await in_database_thread(hold)(self._key)

    def _repeat_headers(self) -> dict[str, str]:
        return {"Idempotent-Replayed": "true"} if self._is_repeat else {}

    def _headers(self, histories: list[History]) -> dict[str, str]:
        finished = [one[-1] for one in histories if isinstance(one[-1], wire.Finished)]
        timings = timing_headers(finished, total_seconds=time.monotonic() - self._started)
        return timings | self._repeat_headers()


class EventStream(StreamingHttpResponse):
    """`on_close` runs also when the client left before the first line was asked for."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str],
        on_close: Callable[[], None],
    ) -> None:
        super().__init__(lines, content_type="text/event-stream; charset=utf-8", headers=headers)
        self._on_close: Callable[[], None] | None = on_close

    def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        super().close()


def begin_if_an_engine_lives(call: Call) -> Served | None:
    """Rows and submission. Raises Refusal."""
    try:
        if call.repeat_key is not None:
            return start_or_repeat(call.orders, call.repeat_key)
        return Served(generations=start_served(call.orders, web_process=this_web_process()))
    except EngineUnavailable:
        return None


async def unless_left(begin: Callable[[], Served | None]) -> Served | None:
    """What `begin`, called in a database thread, has begun. A client that leaves in this moment
    leaves nothing behind, unless it may come again."""
    beginning = asyncio.ensure_future(in_database_thread(begin)())
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        served = await beginning
        if served is not None and not served.may_come_again:
            await in_database_thread(cancel_generations)(served.generations)
        raise


async def _begin_when_an_engine_lives(call: Call) -> Served:
    """An engine that died is back within seconds, so it is worth a wait. Raises ApiError."""
    until = time.monotonic() + ADMISSION_SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(_ENGINE_POLL_SECONDS)
        served = await unless_left(partial(begin_if_an_engine_lives, call))
        if served is not None:
            return served
    raise errors.engine_unavailable()

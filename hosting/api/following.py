"""The events of several generations as one sequence, for a caller who must not wait in silence.

Redis may forget a request. As long as nothing of its answer was told, it is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from engine import wire
from hosting.engine_client import Absence, StreamLost, hub

_MAX_WAITING = 256  # then the hub waits for us, and the data in Redis
_ANSWERS = (wire.Delta, wire.Embedded, wire.Scored)
AGAIN_SECONDS = 10.0  # how long what was asked again may stay unknown
_POLL_SECONDS = 0.25

Numbered = tuple[int, wire.Event]
AskAgain = Callable[[str], Awaitable[bool]]


class Following:
    """One reader per generation, from its first event to its terminal one.

    `next` numbers events by the place of their generation in `request_ids`. `ask_again` submits one
    of them anew; False: there is nothing to follow. Owner: the event loop.
    """

    def __init__(self, request_ids: Sequence[str], *, ask_again: AskAgain | None = None) -> None:
        self._ask_again = ask_again
        self._events: asyncio.Queue[Numbered | Exception] = asyncio.Queue(_MAX_WAITING)
        self._open = set(range(len(request_ids)))
        self._readers = [
            asyncio.create_task(self._read(place, request_id), name=f"follow-{request_id}")
            for place, request_id in enumerate(request_ids)
        ]
        self._waiting = set(self._readers)  # those that only a cancel can end early

    @property
    def is_over(self) -> bool:
        """Every generation's terminal event has been handed out."""
        return not self._open

    async def next(self, *, within_seconds: float) -> Numbered | None:
        """None when nothing came in time. Raises what reading raised."""
        try:
            async with asyncio.timeout(within_seconds):
                got = await self._events.get()
        except TimeoutError:
            return None
        if isinstance(got, Exception):
            raise got
        place, event = got
        if isinstance(event, wire.TERMINAL_EVENTS):
            self._open.discard(place)
        return got

    async def close(self) -> None:
        self.leave()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def leave(self) -> None:
        """Stop reading soon. A reader that is done gives its connection back undisturbed."""
        while self._waiting:
            self._waiting.pop().cancel()

    async def _read(self, place: int, request_id: str) -> None:
        events = self._told(request_id)
        try:
            async for event in events:
                await self._events.put((place, event))
                if isinstance(event, wire.TERMINAL_EVENTS):
                    break
        except Exception as error:
            await self._events.put(error)  # raised again where somebody can answer it
        self._waiting.discard(self._readers[place])
        await events.aclose()

    async def _told(self, request_id: str) -> AsyncGenerator[wire.Event]:
        """Of a request that was asked again: from its new beginning, but accepted once."""
        is_accepted = is_answered = False
        missing = Absence()
        while True:
            try:
                async with aclosing(hub().follow(request_id)) as events:
                    async for _, event in events:
                        missing.end()
                        is_answered = is_answered or isinstance(event, _ANSWERS)
                        if not (is_accepted and isinstance(event, wire.Accepted)):
                            yield event
                        is_accepted = True
                return
            except StreamLost:
                if is_answered or missing.seconds() > AGAIN_SECONDS:
                    raise
                if self._ask_again is None or not await self._ask_again(request_id):
                    raise
            await asyncio.sleep(_POLL_SECONDS)

"""The events of several generations as one sequence, for a caller who must not wait in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from engine import wire
from hosting.engine_client import hub

_MAX_WAITING = 256  # then the hub waits for us, and the data in Redis

Numbered = tuple[int, wire.Event]


class Following:
    """One reader per generation, from its first event to its terminal one.

    `next` numbers events by the place of their generation in `request_ids`. Owner: the event loop.
    """

    def __init__(self, request_ids: Sequence[str]) -> None:
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
        events = hub().follow(request_id)
        try:
            async for _, event in events:
                await self._events.put((place, event))
                if isinstance(event, wire.TERMINAL_EVENTS):
                    break
        except Exception as error:
            await self._events.put(error)  # raised again where somebody can answer it
        self._waiting.discard(self._readers[place])
        await events.aclose()

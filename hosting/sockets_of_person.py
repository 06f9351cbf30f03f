"""Refuses a person's websockets beyond what anybody has open: each looks at its session every 4 s.

It counts in this process, all kinds together, and does not know what they are for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

TOO_MANY = 4429  # close code: the page comes back later, for another may have been closed
MAX_OF_PERSON = 20


class LimitedPerPerson:
    """An ASGI application around another; it must know the scope's user. Owner: the event loop."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._num_open: Counter[int] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        person_id = scope["user"].pk
        if person_id is None:  # told to sign in
            return await self._application(scope, receive, send)  # type: ignore[no-any-return]
        if self._num_open[person_id] >= MAX_OF_PERSON:
            return await _refuse(receive, send)
        self._num_open[person_id] += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._num_open[person_id] -= 1


async def _refuse(receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})  # a close before the handshake reaches no script
    await send({"type": "websocket.close", "code": TOO_MANY})
    while (await receive())["type"] != "websocket.disconnect":
        continue

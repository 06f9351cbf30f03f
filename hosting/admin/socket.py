"""The instruments' websocket: pushes to open pages of the administration. It changes nothing.

A page says what it watches. A push comes every second, so that silence is a lost connection: with
what happens now, and with the history whenever that has grown or something went wrong. The next is
not sent before the page has said that it drew the last: a page in a hidden tab costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.contrib.auth import get_user_model

from hosting.actions.database_threads import in_database_thread
from hosting.actions.history import latest_slot
from hosting.actions.sessions import is_signed_in
from hosting.admin.history_data import INSTRUMENTS, Asked, asked_of, history_data
from hosting.admin.live_data import live_data
from hosting.admin.notices import service_notice
from hosting.socket_watch import SIGNED_OUT, WatchedSocket

NOT_ALLOWED = 4403  # close code: the page says that it may not be seen any more
PUSH_SECONDS = 1.0

logger = logging.getLogger(__name__)


class InstrumentSocket(WatchedSocket):
    """One open page of the administration."""

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.asked: Asked | None = None
        self.has_news = asyncio.Event()
        self.is_drawn = asyncio.Event()
        await self.accept()  # a close before the handshake reaches no script
        user = self.scope["user"]
        if not user.is_authenticated:
            return await self.close(SIGNED_OUT)
        self.person_id: int = user.pk
        self.seen = await seen_instruments(self.person_id)
        if not self.seen:
            return await self.close(NOT_ALLOWED)
        self.tasks = [asyncio.create_task(self.close_in_time()), asyncio.create_task(self._push())]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def receive_json(self, content: Any, **_: Any) -> None:
        match content:
            case {"type": "watch", "instrument": str(instrument), **wishes}:
                await self._watch(instrument, wishes)
            case {"type": "drawn"}:
                self.is_drawn.set()
            case _:
                await self.send_json({"type": "error", "message": "This is not understood."})

    async def _watch(self, instrument: str, wishes: dict[str, Any]) -> None:
        if not self.tasks:
            return
        if instrument not in self.seen:
            return await self.close(NOT_ALLOWED)
        self.asked = asked_of(instrument, wishes)
        self.is_drawn.set()
        self.has_news.set()

    async def _push(self) -> None:
        """Until the socket closes: send, in step with the page's drawing, what it asked for."""
        before: tuple[int, str] | None = None
        try:
            await self.has_news.wait()
            while self.asked is not None:
                await self.is_drawn.wait()
                latest = await in_database_thread(_latest)()
                message = await self._message(self.asked, has_history=latest != before)
                before = latest
                self.is_drawn.clear()
                await self.send_json({"type": "push", **message})
                await self._pause()
        except Exception:
            logger.exception("pushing to an instrument ended")
            await self.close()

    async def _message(self, asked: Asked, *, has_history: bool) -> dict[str, Any]:
        message: dict[str, Any] = {}
        if asked.instrument == "live":
            message["live"] = await in_database_thread(live_data)()
        if has_history or self.has_news.is_set():
            self.has_news.clear()
            message["history"] = await in_database_thread(history_data)(asked)
        return message

    async def _pause(self) -> None:
        """Until the next turn is due, or something else is wished for."""
        try:
            async with asyncio.timeout(PUSH_SECONDS):
                await self.has_news.wait()
        except TimeoutError:
            return

    async def look(self) -> int | None:
        """Sign-out, a lost role or a deactivated person closes the socket."""
        if not await is_signed_in(self.person_id, self.scope["session"].session_key):
            return SIGNED_OUT
        self.seen = await seen_instruments(self.person_id)
        is_hidden = self.asked is not None and self.asked.instrument not in self.seen
        return NOT_ALLOWED if is_hidden or not self.seen else None


def _latest() -> tuple[int, str]:
    """What a history is sent again for."""
    return latest_slot(), service_notice()


@in_database_thread
def seen_instruments(person_id: int) -> frozenset[str]:
    """Which of them this person may see; none for those who may not enter the administration."""
    person = get_user_model().objects.filter(pk=person_id, is_active=True, is_staff=True).first()
    if person is None:
        return frozenset()
    return frozenset(name for name, one in INSTRUMENTS.items() if person.has_perm(one.permission))

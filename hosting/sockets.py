"""The chat page's websocket: events of the person's own generations, and hints. It changes nothing.

Token text comes from the hub, never through the Channels layer. Daphne has no back-pressure, so the
page acknowledges what it has; beyond MAX_UNACKNOWLEDGED events the data waits in Redis.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import Any

from channels.layers import BaseChannelLayer

from engine import wire
from hosting.actions.hints import group_of
from hosting.actions.sessions import is_signed_in, owns_generation
from hosting.engine_client import EngineUnavailable, StreamLost, hub
from hosting.socket_watch import SIGNED_OUT, WatchedSocket

MAX_UNACKNOWLEDGED = 512
MAX_FOLLOWED = 64
MAX_AFTER = 2**53 - 1  # what a script counts to exactly

logger = logging.getLogger(__name__)


class Following:
    """One followed generation: how far the page is, and the task that sends it the rest."""

    def __init__(self, after: int) -> None:
        self.acknowledged = after
        self.task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    def acknowledge(self, seq: int) -> None:
        self.acknowledged = max(self.acknowledged, seq)
        self._moved.set()

    async def wait_for_room(self, seq: int) -> None:
        while seq - self.acknowledged > MAX_UNACKNOWLEDGED:
            self._moved.clear()
            await self._moved.wait()


class ChatSocket(WatchedSocket):
    """One open page. Database work happens at connect, at follow and every 4 s, never per token."""

    channel_layer: BaseChannelLayer

    async def connect(self) -> None:
        self.followed: dict[str, Following] = {}
        self.watch: asyncio.Task[None] | None = None
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.accept()  # a close before the handshake reaches no script
            await self.close(SIGNED_OUT)
            return
        self.person_id: int = user.pk
        await self.channel_layer.group_add(group_of(self.person_id), self.channel_name)
        await self.accept()
        self.watch = asyncio.create_task(self.close_in_time())

    async def disconnect(self, code: int) -> None:
        followed = (following.task for following in self.followed.values())
        tasks = [task for task in (self.watch, *followed) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.watch is not None:
            await self.channel_layer.group_discard(group_of(self.person_id), self.channel_name)

    async def receive_json(self, content: Any, **_: Any) -> None:
        if self.watch is None:
            return
        match content:
            case {"type": "follow", "generation": str(generation), **rest}:
                await self._follow(generation, rest.get("after", -1))
            case {"type": "unfollow", "generation": str(generation)}:
                self._unfollow(generation)
            case {"type": "ack", "generation": str(generation), "seq": int(seq)}:
                if generation in self.followed:
                    self.followed[generation].acknowledge(seq)
            case _:
                await self._complain("This message is not understood.")

    async def conversation_hint(self, message: dict[str, Any]) -> None:
        await self.send_json({"type": "hint", "conversation": message["conversation"]})

    async def _follow(self, generation: str, after: Any) -> None:
        if type(after) is not int or not -1 <= after <= MAX_AFTER:
            return await self._complain(f"after must be a whole number from -1 to {MAX_AFTER}.")
        if len(self.followed) >= MAX_FOLLOWED and generation not in self.followed:
            return await self._complain("Too many answers are followed at once.")
        if not _is_uuid(generation) or not await owns_generation(self.person_id, generation):
            return await self._complain("There is no such generation.")
        self._unfollow(generation)
        following = self.followed[generation] = Following(after)
        following.task = asyncio.create_task(self._send_events(generation, after, following))

    def _unfollow(self, generation: str) -> None:
        following = self.followed.pop(generation, None)
        if following is not None and following.task is not None:
            following.task.cancel()

    async def _send_events(self, generation: str, after: int, following: Following) -> None:
        try:
            async with contextlib.aclosing(hub().follow(generation, after)) as events:
                async for seq, event in events:
                    await following.wait_for_room(seq)
                    await self.send_json(event_message(generation, seq, event))
        except (StreamLost, EngineUnavailable):
            await self.send_json({"type": "lost", "generation": generation})
        except Exception:
            logger.exception("following ended", extra={"request_id": generation})
            await self.send_json({"type": "lost", "generation": generation})
        if self.followed.get(generation) is following:
            del self.followed[generation]

    async def look(self) -> int | None:
        """Sign-out, a changed password or a deactivated person closes the socket."""
        is_in = await is_signed_in(self.person_id, self.scope["session"].session_key)
        return None if is_in else SIGNED_OUT

    async def _complain(self, message: str) -> None:
        await self.send_json({"type": "error", "message": message})


def event_message(generation: str, seq: int, event: wire.Event) -> dict[str, Any]:
    plain = wire.to_plain(event)
    plain.pop("prefix", None)  # it tells of other people's prompts
    body = {"type": type(event).__name__, **plain}
    return {"type": "event", "generation": generation, "seq": seq, "event": body}


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False

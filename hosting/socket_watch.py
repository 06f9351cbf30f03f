"""A websocket whose person may be shut out: who may keep it open is looked at every few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.db import Error

SIGNED_OUT = 4401  # close code: the page asks for a new sign-in
CHECK_SECONDS = 4.0  # so that a look is over within 5

logger = logging.getLogger(__name__)


class WatchedSocket(AsyncJsonWebsocketConsumer):
    """A message that is no JSON comes as None."""

    channel_name = ""  # until the layer has given one

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._give_up_channel()

    async def _give_up_channel(self) -> None:
        """The layer drops a channel when the wait for its next message is cancelled. There is no
        such wait where a message has just come."""
        while self.channel_name in self.channel_layer.channels:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await self.channel_layer.receive(self.channel_name)

    async def look(self) -> int | None:
        """The code to close with, once its person may not stay."""
        raise NotImplementedError

    async def close_in_time(self) -> None:
        """Within 5 s of when it must. Where the database is away, the next look tells."""
        while True:
            try:
                code = await self.look()
            except Error:
                logger.warning("who may stay was not to be seen", exc_info=True)
            else:
                if code is not None:
                    return await self.close(code)
            await asyncio.sleep(CHECK_SECONDS)

    async def receive(self, text_data: str | None = None, **_: Any) -> None:
        """Also what has no text, which channels does not survive."""
        await self.receive_json(await self.decode_json(text_data or ""))

    @classmethod
    async def decode_json(cls, text_data: str) -> Any:
        try:
            return await super().decode_json(text_data)
        except (ValueError, RecursionError):
            return None

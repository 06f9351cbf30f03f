"""Whether somebody may keep a websocket open: looked at every few seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from django.db import Error

SIGNED_OUT = 4401  # close code: the page asks for a new sign-in
CHECK_SECONDS = 4.0  # so that a look is over within 5

logger = logging.getLogger(__name__)


async def code_to_close_with(look: Callable[[], Awaitable[int | None]]) -> int:
    """The first that a look gives. Where the database is away, the next look tells."""
    while True:
        try:
            code = await look()
        except Error:
            logger.warning("who may stay was not to be seen", exc_info=True)
        else:
            if code is not None:
                return code
        await asyncio.sleep(CHECK_SECONDS)

"""An address that answers with the length of a prompt, in the dialect of its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request

from engine import wire
from hosting.actions.counting import start_count
from hosting.actions.database_threads import in_database_thread
from hosting.actions.orders import Order
from hosting.api import errors
from hosting.api.answer_view import AwaitedView, caller_of
from hosting.api.chat_request import ChatRequest
from hosting.api.dialect import Caller
from hosting.api.following import Following
from hosting.api.image_fields import error_of
from hosting.api.run import ADMISSION_SECONDS
from hosting.engine_client import EngineUnavailable, StreamLost


class CountView(AwaitedView):
    """A dialect gives `read`, which checks a body (raises ApiError, ValidationError or Refusal),
    and `post`, which carries its description and puts `await self.count(request)` into its form.
    """

    read: Callable[[dict[str, Any], Caller], ChatRequest]

    async def count(self, http_request: Request) -> int:
        order, request_id = await in_database_thread(self._start)(http_request)
        return await _counted(order, request_id)

    def _start(self, http_request: Request) -> tuple[Order, str]:
        chat = self.read(http_request.data, caller_of(http_request))
        return chat.orders[0], start_count(chat.orders[0])


async def _counted(order: Order, request_id: str) -> int:
    """Raises ApiError."""
    following = Following([request_id])
    try:
        numbered = await following.next(within_seconds=ADMISSION_SECONDS)
    except (EngineUnavailable, StreamLost):
        numbered = None
    finally:
        await following.close()
    match numbered:
        case (_, wire.Counted() as counted):
            return counted.prompt_tokens
        case (_, wire.Refused() as refused):
            raise error_of(refused, order)
    raise errors.engine_unavailable()

"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from engine import wire
from hosting.actions.counting import start_count
from hosting.actions.database_threads import in_database_thread
from hosting.api import errors
from hosting.api.answer_view import AnswerView, AwaitedView, caller_of
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.anthropic_reply import Heading, MessageReply
from hosting.api.anthropic_request import (
    MessageRequest,
    TokenCountRequest,
    read_count_request,
    read_message_request,
)
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.following import Following
from hosting.api.run import ADMISSION_SECONDS
from hosting.api.schema_shapes import AnthropicError, AnthropicMessage, TokenCount
from hosting.engine_client import EngineUnavailable, StreamLost
from hosting.models import Generation

_OVERLOADED = (529,)
_EXAMPLE = {"messages": [{"role": "user", "content": "What is 12 + 30?"}]}


class Messages(AnswerView):
    error_form = staticmethod(anthropic_form)

    @described(
        "create_message",
        "Answer a conversation, in Anthropic's dialect",
        takes=MessageRequest,
        gives=AnthropicMessage,
        example={"max_tokens": 200, **_EXAMPLE},
        error=AnthropicError,
        more_refusals=_OVERLOADED,
    )
    async def post(self, http_request: Request) -> Response | StreamingHttpResponse:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        chat = read_message_request(body, caller)
        context_tokens = chat.orders[0].model.context_limit_tokens
        make_reply = partial(_reply, body, context_tokens)
        return Call(orders=chat.orders, is_stream=chat.is_stream, make_reply=make_reply)


class CountTokens(AwaitedView):
    error_form = staticmethod(anthropic_form)

    @described(
        "count_tokens",
        "The length of a prompt, without an answer",
        takes=TokenCountRequest,
        gives=TokenCount,
        example=_EXAMPLE,
        error=AnthropicError,
        more_refusals=_OVERLOADED,
        is_streamed=False,
        is_repeatable=False,
    )
    async def post(self, http_request: Request) -> Response:
        request_id = await in_database_thread(self._start)(http_request)
        return Response({"input_tokens": await _counted(request_id)})

    def _start(self, http_request: Request) -> str:
        chat = read_count_request(http_request.data, caller_of(http_request))
        return start_count(chat.orders[0])


def _reply(
    body: dict[str, Any], context_tokens: int | None, generations: Sequence[Generation]
) -> MessageReply:
    return MessageReply(
        Heading(
            id=f"msg_{generations[0].pk.hex}",
            model=body["model"],
            max_tokens=body.get("max_tokens"),
            context_tokens=context_tokens,
        )
    )


async def _counted(request_id: str) -> int:
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
            raise errors.of_event(refused)
    raise errors.engine_unavailable()

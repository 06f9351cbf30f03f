"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.api.answer_view import AnswerView
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.anthropic_reply import Heading, MessageReply
from hosting.api.anthropic_request import (
    MessageRequest,
    TokenCountRequest,
    read_count_request,
    read_message_request,
)
from hosting.api.count_view import CountView
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.schema_shapes import AnthropicError, AnthropicMessage, TokenCount
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


class CountTokens(CountView):
    error_form = staticmethod(anthropic_form)
    read = staticmethod(read_count_request)

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
        return Response({"input_tokens": await self.count(http_request)})


def _reply(
    body: dict[str, Any], context_tokens: int | None, generations: Sequence[Generation]
) -> MessageReply:
    return MessageReply(
        Heading(
            id=f"msg_{generations[0].pk.hex}",
            model=body["model"],
            max_tokens=body.get("max_tokens"),
            context_tokens=context_tokens,
            omits_thinking=(body.get("thinking") or {}).get("display") == "omitted",
        )
    )

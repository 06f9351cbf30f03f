"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.api.answer_view import AnswerView
from hosting.api.chat_request import ChatCompletionRequest, ChatRequest, read_chat_request
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.openai_chat import ChatReply, Heading
from hosting.api.schema_shapes import ChatCompletion
from hosting.models import Generation


class ChatCompletions(AnswerView):
    @described(
        "create_chat_completion",
        "Answer a conversation",
        takes=ChatCompletionRequest,
        gives=ChatCompletion,
        example={"messages": [{"role": "user", "content": "What is 12 + 30?"}]},
    )
    async def post(self, http_request: Request) -> Response | StreamingHttpResponse:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        chat = read_chat_request(body, caller)
        return Call(orders=chat.orders, is_stream=chat.is_stream, make_reply=partial(_reply, chat))


def _reply(chat: ChatRequest, generations: Sequence[Generation]) -> ChatReply:
    return ChatReply(
        Heading(
            id=f"chatcmpl-{generations[0].pk.hex}",
            created=int(generations[0].created_at.timestamp()),
            model=generations[0].model_name,
            includes_usage=chat.includes_usage,
            wants_logprobs=chat.wants_logprobs,
            service_tier=chat.service_tier,
        )
    )

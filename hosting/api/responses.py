"""POST /v1/responses and /v1/responses/input_tokens.

Nothing is stored: a client sends the whole input each time.
"""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.api.answer_view import AnswerView
from hosting.api.count_view import CountView
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.responses_reply import ResponsesReply
from hosting.api.responses_request import (
    InputTokensRequest,
    ResponseRequest,
    error_form,
    read_input_tokens_request,
    read_response_request,
)
from hosting.api.schema_shapes import InputTokens, ResponseObject

_EXAMPLE = {"input": "What is 12 + 30?"}


class Responses(AnswerView):
    error_form = staticmethod(error_form)

    @described(
        "create_response",
        "Answer an input with items",
        takes=ResponseRequest,
        gives=ResponseObject,
        example=_EXAMPLE,
    )
    async def post(self, http_request: Request) -> Response | StreamingHttpResponse:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        read = read_response_request(body, caller)
        return Call(
            orders=read.chat.orders,
            is_stream=read.chat.is_stream,
            make_reply=lambda generations: ResponsesReply(read.shape(generations[0])),
        )


class CountInputTokens(CountView):
    error_form = staticmethod(error_form)
    read = staticmethod(read_input_tokens_request)

    @described(
        "count_input_tokens",
        "The length of an input, without an answer",
        takes=InputTokensRequest,
        gives=InputTokens,
        example=_EXAMPLE,
        is_streamed=False,
        is_repeatable=False,
    )
    async def post(self, http_request: Request) -> Response:
        input_tokens = await self.count(http_request)
        return Response({"object": "response.input_tokens", "input_tokens": input_tokens})

"""POST /v1/responses. Nothing is stored: a client sends the whole input each time."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.api.answer_view import AnswerView
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.responses_reply import ResponsesReply
from hosting.api.responses_request import ResponseRequest, error_form, read_response_request
from hosting.api.schema_shapes import ResponseObject


class Responses(AnswerView):
    error_form = staticmethod(error_form)

    @described(
        "create_response",
        "Answer an input with items",
        takes=ResponseRequest,
        gives=ResponseObject,
        example={"input": "What is 12 + 30?"},
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

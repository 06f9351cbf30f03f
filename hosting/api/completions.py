"""POST /v1/completions: a text is continued, or the gap in it filled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.api.answer_view import AnswerView
from hosting.api.completions_reply import CompletionHeading, CompletionReply
from hosting.api.completions_request import (
    CompletionOrder,
    CompletionRequest,
    read_completion_request,
)
from hosting.api.description import described
from hosting.api.dialect import Call, Caller
from hosting.api.schema_shapes import Completion
from hosting.models import Generation


class Completions(AnswerView):
    @described(
        "create_completion",
        "Continue a text, or fill the gap in it",
        takes=CompletionRequest,
        gives=Completion,
        example={"prompt": "Hearth is", "max_tokens": 40},
    )
    async def post(self, http_request: Request) -> Response | StreamingHttpResponse:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        order = read_completion_request(body, caller)
        return Call(
            orders=order.orders, is_stream=order.is_stream, make_reply=partial(_reply, order)
        )


def _reply(order: CompletionOrder, generations: Sequence[Generation]) -> CompletionReply:
    return CompletionReply(
        CompletionHeading(
            id=f"cmpl-{generations[0].pk.hex}",
            created=int(generations[0].created_at.timestamp()),
            model=generations[0].model_name,
            num_per_prompt=order.num_per_prompt,
            echoed=order.echoed,
            includes_usage=order.includes_usage,
            wants_logprobs=order.wants_logprobs,
        )
    )

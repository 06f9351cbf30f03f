"""Which calls a batch may hold. Each is read and answered in the dialect of its address."""

from __future__ import annotations

import dataclasses
from typing import Any

from hosting.actions.message_batches import ENDPOINT as MESSAGES
from hosting.api.answer_view import AnswerView
from hosting.api.anthropic import Messages
from hosting.api.chat_completions import ChatCompletions
from hosting.api.completions import Completions
from hosting.api.dialect import Call, Caller
from hosting.api.embeddings import Embeddings
from hosting.api.errors import ApiError, ErrorForm, openai_form
from hosting.api.responses import Responses
from hosting.models import Batch, Generation

CLIENT = "batch"  # as usage tells it

_VIEWS: dict[str, type[AnswerView]] = {
    "/v1/chat/completions": ChatCompletions,
    "/v1/completions": Completions,
    "/v1/responses": Responses,
    "/v1/embeddings": Embeddings,
    MESSAGES: Messages,
}
ENDPOINTS = tuple(address for address in _VIEWS if address != MESSAGES)  # of files of requests


def read_call(batch: Batch, body: dict[str, Any]) -> Call:
    """Raises ApiError, ValidationError or Refusal."""
    caller = Caller(user=batch.user, api_key=batch.api_key, client=CLIENT)
    call = _VIEWS[batch.endpoint]().read(body, caller)
    orders = (dataclasses.replace(order, kind=Generation.Kind.BATCH) for order in call.orders)
    return dataclasses.replace(call, orders=tuple(orders))


def error_body(batch: Batch, error: ApiError) -> tuple[int, dict[str, Any]]:
    """Status and body, as the address itself would answer."""
    form: ErrorForm = getattr(_VIEWS[batch.endpoint], "error_form", openai_form)
    answer = form(error)
    return answer.status, answer.body

"""/v1/messages/batches: many messages that are answered in the background, in Anthropic's form."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.actions.batches import cancel_batch
from hosting.actions.database_threads import in_database_thread
from hosting.actions.message_batches import (
    ENDPOINT,
    PREFIX,
    check_results,
    create_message_batch,
    delete_message_batch,
    get_message_batch,
)
from hosting.api.answer_view import AwaitedView
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.message_batch_lines import counts_of, lines_of, results_of
from hosting.api.pages_of_rows import page_of, read_wanted
from hosting.api.schema_shapes import (
    AnthropicError,
    DeletedMessageBatch,
    MessageBatch,
    MessageBatchList,
    MessageBatchRequest,
)
from hosting.models import Batch

_MOST_LISTED = 1000
_LINES_AT_ONCE = 100
_REFUSALS = dict.fromkeys((400, 401, 403, 404, 500, 503), AnthropicError)
_MESSAGE = {"role": "user", "content": "What is 12 + 30?"}
_PARAMS = {"model": "hearth-demo", "max_tokens": 200, "messages": [_MESSAGE]}
_EXAMPLE = {"requests": [{"custom_id": "1", "params": _PARAMS}]}
_MORE_REFUSALS = dict.fromkeys((413, 415, 507), AnthropicError)
_JSON_REFUSALS = {(status, "application/json"): shape for status, shape in _REFUSALS.items()}


class _View(AwaitedView):
    error_form = staticmethod(anthropic_form)


class MessageBatches(_View):
    @extend_schema(
        operation_id="create_message_batch",
        summary="Begin a batch of messages, in Anthropic's dialect",
        request=MessageBatchRequest,
        examples=[OpenApiExample("One message", _EXAMPLE, request_only=True)],
        responses={200: MessageBatch, **_REFUSALS, **_MORE_REFUSALS},
    )
    def post(self, http_request: Request) -> Response:
        lines = lines_of(http_request.data)
        batch = create_message_batch(http_request.user, http_request.auth, lines)
        return Response(_shown(batch, http_request))

    @extend_schema(
        operation_id="list_message_batches",
        summary="Your batches of messages",
        parameters=[OpenApiParameter(name) for name in ("after_id", "before_id", "limit")],
        responses={200: MessageBatchList, **_REFUSALS},
    )
    def get(self, http_request: Request) -> Response:
        """The newest first. `before_id` asks for the page before that one."""
        query, user = http_request.query_params, http_request.user
        is_backwards = "before_id" in query
        order = {"order": "asc" if is_backwards else "desc"}
        wanted = read_wanted(query.dict() | order, usual=20, most=_MOST_LISTED)
        beside = query.get("before_id", query.get("after_id"))
        after = get_message_batch(user, beside) if beside is not None else None
        rows = Batch.objects.of(user.pk).filter(endpoint=ENDPOINT)
        page = page_of(rows, after, wanted, lambda batch: _shown(batch, http_request))
        data = page["data"][::-1] if is_backwards else page["data"]
        return Response(
            {
                "data": data,
                "has_more": page["has_more"],
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
            }
        )


class OneMessageBatch(_View):
    @extend_schema(
        operation_id="retrieve_message_batch",
        summary="One of your batches of messages",
        responses={200: MessageBatch, **_REFUSALS},
    )
    def get(self, http_request: Request, batch_id: str) -> Response:
        return Response(_shown(get_message_batch(http_request.user, batch_id), http_request))

    @extend_schema(
        operation_id="delete_message_batch",
        summary="Delete one of your batches of messages",
        responses={200: DeletedMessageBatch, **_REFUSALS},
    )
    def delete(self, http_request: Request, batch_id: str) -> Response:
        delete_message_batch(get_message_batch(http_request.user, batch_id))
        return Response({"id": batch_id, "type": "message_batch_deleted"})


class CancelMessageBatch(_View):
    @extend_schema(
        operation_id="cancel_message_batch",
        summary="Stop one of your batches of messages",
        request=None,
        responses={200: MessageBatch, **_REFUSALS},
    )
    def post(self, http_request: Request, batch_id: str) -> Response:
        batch = cancel_batch(get_message_batch(http_request.user, batch_id))
        return Response(_shown(batch, http_request))


class MessageBatchResults(_View):
    @extend_schema(
        operation_id="message_batch_results",
        summary="What came of each message",
        responses={(200, "application/x-jsonl"): OpenApiTypes.BINARY, **_JSON_REFUSALS},
    )
    async def get(self, http_request: Request, batch_id: str) -> StreamingHttpResponse:
        batch = await in_database_thread(_with_results)(http_request.user, batch_id)
        return StreamingHttpResponse(_pieces(batch), content_type="application/x-jsonl")


def _with_results(user: Any, batch_id: str) -> Batch:
    batch = get_message_batch(user, batch_id)
    check_results(batch)
    return batch


async def _pieces(batch: Batch) -> AsyncIterator[bytes]:
    lines = results_of(batch)
    while some := await asyncio.to_thread(list, itertools.islice(lines, _LINES_AT_ONCE)):
        yield b"".join(some)


def _shown(batch: Batch, http_request: Request) -> dict[str, Any]:
    public_id = f"{PREFIX}{batch.pk.hex}"
    results = f"{ENDPOINT}/batches/{public_id}/results"
    status = "canceling" if batch.status == Batch.Status.CANCELLING else "in_progress"
    return {
        "id": public_id,
        "type": "message_batch",
        "processing_status": status if batch.is_open else "ended",
        "request_counts": counts_of(batch),
        "created_at": _told(batch.created_at),
        "expires_at": _told(batch.expires_at),
        "ended_at": _told(batch.ended_at),
        "cancel_initiated_at": _told(batch.cancelling_at),
        "archived_at": None,
        "results_url": None if batch.is_open else http_request.build_absolute_uri(results),
    }


def _told(at: datetime.datetime | None) -> str | None:
    return at.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z") if at else None

"""/v1/batches: a file of requests that are answered in the background, in OpenAI's form."""

from __future__ import annotations

import datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.actions.batches import cancel_batch, create_batch, get_batch
from hosting.api.answer_view import AwaitedView
from hosting.api.batch_calls import ENDPOINTS
from hosting.api.checked import checked
from hosting.api.errors import ApiError
from hosting.api.files import LEAST_KEPT_SECONDS, MOST_KEPT_SECONDS
from hosting.api.pages_of_rows import page_of, read_wanted
from hosting.api.schema_shapes import BatchList, BatchObject, Error
from hosting.api.scopes import may_use
from hosting.fields import Text, Whole
from hosting.models import Batch

_MOST_LISTED = 100
_MOST_PAIRS = 16
_REFUSALS = dict.fromkeys((400, 401, 403, 404, 413, 415, 500, 503), Error)


class Metadata(serializers.DictField):
    """Sixteen short texts, as OpenAI has it."""

    child = Text(max_length=512, allow_blank=True)

    def run_child_validation(self, data: Any) -> Any:
        for name in data:
            if len(str(name)) > 64:
                raise serializers.ValidationError({name: ["A name has at most 64 characters."]})
        if len(data) > _MOST_PAIRS:
            raise serializers.ValidationError(f"At most {_MOST_PAIRS} pairs can be kept.")
        return super().run_child_validation(data)


class OutputExpiresAfter(serializers.Serializer[Any]):
    anchor = serializers.ChoiceField(choices=("created_at",))
    seconds = Whole(min_value=LEAST_KEPT_SECONDS, max_value=MOST_KEPT_SECONDS)


class BatchRequest(serializers.Serializer[Any]):
    """Fields that are not listed are ignored."""

    input_file_id = Text(max_length=100)
    endpoint = serializers.ChoiceField(choices=ENDPOINTS)
    completion_window = serializers.ChoiceField(choices=("24h",))
    metadata = Metadata(required=False, allow_null=True)
    output_expires_after = OutputExpiresAfter(required=False, allow_null=True)


class Batches(AwaitedView):
    @extend_schema(
        operation_id="create_batch",
        summary="Begin a batch of requests",
        request=BatchRequest,
        responses={200: BatchObject, **_REFUSALS},
    )
    def post(self, http_request: Request) -> Response:
        data = checked(BatchRequest, http_request.data)
        endpoint = data["endpoint"]
        if not may_use(http_request.auth, endpoint.removeprefix("/")):
            message = "This API key is not meant for this endpoint."
            raise ApiError(403, "insufficient_permissions", message, param="endpoint")
        batch = create_batch(
            http_request.user,
            http_request.auth,
            input_file_id=data["input_file_id"],
            endpoint=endpoint,
            metadata=data.get("metadata"),
            output_kept_seconds=(data.get("output_expires_after") or {}).get("seconds"),
        )
        return Response(shown_batch(batch))

    @extend_schema(
        operation_id="list_batches",
        summary="Your batches",
        parameters=[OpenApiParameter(name) for name in ("after", "limit")],
        responses={200: BatchList, **_REFUSALS},
    )
    def get(self, http_request: Request) -> Response:
        query, user = http_request.query_params, http_request.user
        wanted = read_wanted(query, usual=20, most=_MOST_LISTED)
        after = get_batch(user, query["after"]) if "after" in query else None
        return Response(page_of(Batch.objects.of(user.pk), after, wanted, shown_batch))


class OneBatch(AwaitedView):
    @extend_schema(
        operation_id="retrieve_batch",
        summary="One of your batches",
        responses={200: BatchObject, **_REFUSALS},
    )
    def get(self, http_request: Request, batch_id: str) -> Response:
        return Response(shown_batch(get_batch(http_request.user, batch_id)))


class CancelBatch(AwaitedView):
    @extend_schema(
        operation_id="cancel_batch",
        summary="Stop one of your batches",
        request=None,
        responses={200: BatchObject, **_REFUSALS},
    )
    def post(self, http_request: Request, batch_id: str) -> Response:
        batch = get_batch(http_request.user, batch_id)
        return Response(shown_batch(cancel_batch(batch)))


def shown_batch(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.public_id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model_name or None,
        "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
        "input_file_id": f"file-{batch.input_file.hex}",
        "completion_window": "24h",
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": _seconds(batch.created_at),
        "in_progress_at": _seconds(batch.in_progress_at),
        "expires_at": _seconds(batch.expires_at),
        "finalizing_at": _seconds(batch.finalizing_at),
        "cancelling_at": _seconds(batch.cancelling_at),
        **{
            f"{status}_at": _seconds(batch.ended_at) if batch.status == status else None
            for status in ("completed", "failed", "expired", "cancelled")
        },
        "request_counts": {
            "total": batch.num_lines,
            "completed": batch.num_completed,
            "failed": batch.num_failed,
        },
        "usage": _usage(batch),
        "metadata": batch.metadata,
    }


def _usage(batch: Batch) -> dict[str, Any]:
    return {
        "input_tokens": batch.prompt_tokens,
        "input_tokens_details": {"cached_tokens": batch.cached_tokens},
        "output_tokens": batch.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": batch.reasoning_tokens},
        "total_tokens": batch.prompt_tokens + batch.completion_tokens,
    }


def _seconds(at: datetime.datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None

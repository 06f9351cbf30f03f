"""How an address that takes a body is described: its answers and refusals, what header it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.serializers import Serializer

from hosting.api.repeat_key import HEADER, MAX_CHARACTERS, PATTERN
from hosting.api.schema_shapes import Error

REFUSALS = (400, 401, 403, 404, 413, 415, 429, 500, 503)
_REUSED_KEY = 422
_KEY = OpenApiParameter(
    HEADER,
    {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS, "pattern": PATTERN},
    OpenApiParameter.HEADER,
    description="Sent again under the same key, a call gets the answer that the first one began.",
)
_MODEL = "hearth-demo"
Shape = type[Serializer[Any]]


def described(
    name: str,
    summary: str,
    *,
    takes: Shape,
    gives: Shape,
    example: dict[str, Any],
    error: Shape = Error,
    is_streamed: bool = True,
    is_repeatable: bool = True,
    more_refusals: tuple[int, ...] = (),
) -> Callable[[Any], Any]:
    """For the `post` of a view. `example`: a body to begin with, but for its model's name."""
    refusals = (*REFUSALS, *more_refusals, *((_REUSED_KEY,) if is_repeatable else ()))
    streamed = {(200, "text/event-stream"): OpenApiTypes.STR} if is_streamed else {}
    return extend_schema(
        operation_id=name,
        summary=summary,
        parameters=[_KEY] if is_repeatable else [],
        request=takes,
        examples=[OpenApiExample(summary, {"model": _MODEL, **example}, request_only=True)],
        responses={
            (200, "application/json"): gives,
            **streamed,
            **{(status, "application/json"): error for status in refusals},
        },
    )

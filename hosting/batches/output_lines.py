"""A line of a batch's output or of its errors, in OpenAI's form."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from rest_framework.renderers import JSONRenderer

from engine import wire
from hosting.actions.batch_results import Results
from hosting.api.batch_calls import error_body
from hosting.api.errors import ApiError
from hosting.models import Batch, Generation

_EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


def answered(custom_id: str, body: dict[str, Any], generations: Sequence[Generation]) -> Results:
    response = _response(200, body, str(generations[0].pk))
    return Results(
        output=_line(custom_id, response=response), num_completed=1, usage=_sum(generations)
    )


def refused(
    batch: Batch, custom_id: str, error: ApiError, generations: Sequence[Generation] = ()
) -> Results:
    status, body = error_body(batch, error)
    request_id = str(generations[0].pk if generations else uuid.uuid4())
    response = _response(status, body, request_id)
    return Results(
        errors=_line(custom_id, response=response), num_failed=1, usage=_sum(generations)
    )


def expired(custom_id: str, generations: Sequence[Generation] = ()) -> Results:
    line = _line(custom_id, error=_EXPIRED)
    return Results(errors=line, num_failed=1, num_expired=1, usage=_sum(generations))


def dropped(generations: Sequence[Generation]) -> Results:
    """Of a batch that is stopped. What it has cost counts."""
    return Results(usage=_sum(generations))


def together(many: Sequence[Results]) -> Results:
    return Results(
        output=b"".join(one.output for one in many),
        errors=b"".join(one.errors for one in many),
        num_completed=sum(one.num_completed for one in many),
        num_failed=sum(one.num_failed for one in many),
        num_expired=sum(one.num_expired for one in many),
        usage=_sum([one.usage for one in many]),
    )


def _sum(many: Sequence[Generation | wire.Usage]) -> wire.Usage:
    return wire.Usage(
        prompt_tokens=sum(one.prompt_tokens for one in many),
        cached_tokens=sum(one.cached_tokens for one in many),
        completion_tokens=sum(one.completion_tokens for one in many),
        reasoning_tokens=sum(one.reasoning_tokens for one in many),
    )


def _response(status: int, body: dict[str, Any], request_id: str) -> dict[str, Any]:
    return {"status_code": status, "request_id": request_id, "body": body}


def _line(
    custom_id: str,
    *,
    response: dict[str, Any] | None = None,
    error: dict[str, str] | None = None,
) -> bytes:
    line = {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": custom_id,
        "response": response,
        "error": error,
    }
    written: bytes = JSONRenderer().render(line)
    return written + b"\n"

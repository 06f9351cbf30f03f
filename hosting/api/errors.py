"""Every way in which the API says no: a true status, honest headers, a body in the dialect asked.

OpenAI's form is here, as most addresses speak it; another dialect's is in its own file.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from typing import Any

from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from engine import wire
from hosting.actions.limit_refusals import LimitRefusal
from hosting.actions.refusals import Refusal
from hosting.engine_client import EngineUnavailable, StreamLost, get_client
from hosting.fields import first_error

RETRY_SECONDS = 10  # after which an engine that died is back, as a rule
MAX_RETRY_SECONDS = 60  # SDKs do not believe more
_INVALID, _SERVER = "invalid_request_error", "server_error"

logger = logging.getLogger(__name__)


class ApiError(exceptions.APIException):
    """`is_final`: trying again will not help, and the SDKs are told so."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        type: str = _INVALID,
        param: str | None = None,
        numbers: dict[str, float] | None = None,
        retry_seconds: float | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(message)
        self.status_code = status
        self.code = code
        self.message = message
        self.type = type
        self.param = param
        self.numbers = numbers or {}
        self.headers: dict[str, str] = {}
        if retry_seconds is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_seconds)))
        if is_final:
            self.headers["x-should-retry"] = "false"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error as one dialect puts it."""

    status: int
    body: dict[str, Any]


ErrorForm = Callable[[ApiError], ErrorAnswer]


def openai_form(error: ApiError) -> ErrorAnswer:
    body = {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }
    return ErrorAnswer(status=error.status_code, body={"error": body})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How one code of the wire looks over HTTP."""

    status: int
    type: str = _INVALID
    code: str | None = None  # None: the wire's own
    param: str | None = None
    retry_seconds: int | None = None
    is_final: bool = False


_KINDS = {
    wire.Code.INVALID_VALUE: _Kind(status=400),
    wire.Code.CONTEXT_LENGTH_EXCEEDED: _Kind(status=400, param="messages"),
    wire.Code.MODEL_NOT_FOUND: _Kind(status=404, param="model"),
    wire.Code.MODEL_LOAD_FAILED: _Kind(status=503, type=_SERVER, retry_seconds=RETRY_SECONDS),
    wire.Code.DOES_NOT_FIT: _Kind(status=503, type=_SERVER, is_final=True),
    wire.Code.QUEUE_FULL: _Kind(
        status=503,
        type="service_unavailable_error",
        code="server_is_overloaded",
        retry_seconds=RETRY_SECONDS,
    ),
    wire.Code.TENANT_QUEUE_FULL: _Kind(
        status=429, type="requests", code="rate_limit_exceeded", retry_seconds=5
    ),
    wire.Code.BUDGET_EXCEEDED: _Kind(status=429, type="insufficient_quota", is_final=True),
    wire.Code.DEADLINE_EXCEEDED: _Kind(status=503, type=_SERVER, is_final=True),
    wire.Code.POISON: _Kind(status=500, type=_SERVER, is_final=True),
    wire.Code.ENGINE_ERROR: _Kind(status=500, type=_SERVER),
}


def of_event(event: wire.Refused | wire.Failed) -> ApiError:
    kind = _KINDS[event.code]
    message = event.detail
    numbers = event.numbers if isinstance(event, wire.Refused) else {}
    retry_seconds = kind.retry_seconds
    if retry_seconds is not None and "retry_seconds" in numbers:
        retry_seconds = min(math.ceil(numbers["retry_seconds"]), MAX_RETRY_SECONDS)
    if kind.status == 429 and retry_seconds:
        message += f" Please try again in {retry_seconds}.0s."  # Codex reads this
    return ApiError(
        kind.status,
        kind.code or event.code,
        message,
        type=kind.type,
        param=(event.param if isinstance(event, wire.Refused) else None) or kind.param,
        numbers=numbers,
        retry_seconds=retry_seconds,
        is_final=kind.is_final,
    )


def invalid(param: str, message: str) -> ApiError:
    return ApiError(400, "invalid_value", message, param=param)


def unsupported(param: str, message: str) -> ApiError:
    return ApiError(400, "unsupported_parameter", message, param=param)


def engine_unavailable() -> ApiError:
    """What has been away for a minute will not be back in ten seconds."""
    away_seconds = get_client().seconds_without_engine
    return ApiError(
        503,
        "engine_unavailable",
        "No engine is running at the moment.",
        type=_SERVER,
        retry_seconds=min(max(RETRY_SECONDS, away_seconds), MAX_RETRY_SECONDS),
    )


def database_unavailable() -> ApiError:
    """Away, locked, or on a full disk: nothing was accepted, and later it may be."""
    return ApiError(
        503,
        "database_unavailable",
        "The server cannot store requests at the moment.",
        type=_SERVER,
        retry_seconds=RETRY_SECONDS,
    )


def cancelled() -> ApiError:
    return ApiError(503, "cancelled", "The request was cancelled.", type=_SERVER, is_final=True)


def internal() -> ApiError:
    return ApiError(500, "internal_error", "The server made a mistake.", type=_SERVER)


def handle_exception(exception: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: whatever happens, the answer is JSON in the view's dialect."""
    error = as_api_error(exception)
    if error.status_code == 500 or isinstance(exception, OperationalError):
        logger.error("unhandled error in %s", type(context["view"]).__name__, exc_info=exception)
    form: ErrorForm = getattr(context["view"], "error_form", openai_form)
    answer = form(error)
    response = Response(answer.body, status=answer.status, headers=error.headers)
    challenge = getattr(exception, "auth_header", None)
    if challenge:
        response["WWW-Authenticate"] = challenge
    return response


def _limit_met(refusal: LimitRefusal) -> ApiError:
    """OpenAI's types say what was counted, or that the quota is spent."""
    is_spent = refusal.code == "insufficient_quota"
    message = refusal.message
    if refusal.retry_seconds is not None and not refusal.is_final:
        message += f" Please try again in {refusal.retry_seconds:.1f}s."  # Codex reads this
    return ApiError(
        refusal.status,
        refusal.code,
        message,
        type=refusal.code if is_spent else refusal.kind,
        retry_seconds=refusal.retry_seconds,
        is_final=refusal.is_final,
    )


def as_api_error(exception: Exception) -> ApiError:
    """What is told of it; a mistake of ours for what nobody expected."""
    match exception:
        case ApiError():
            return exception
        case LimitRefusal():
            return _limit_met(exception)
        case Refusal():
            return ApiError(
                exception.status, exception.code, exception.message, param=exception.field
            )
        case EngineUnavailable() | StreamLost():
            return engine_unavailable()
        case OperationalError():
            return database_unavailable()
        case exceptions.NotAuthenticated():
            return ApiError(
                401,
                "invalid_api_key",
                "You did not provide an API key. Send it as 'Authorization: Bearer <key>'.",
            )
        case exceptions.AuthenticationFailed():
            return ApiError(401, str(exception.get_codes()), str(exception.detail))
        case exceptions.ValidationError():
            param, message = first_error(exception.detail)
            return ApiError(400, "invalid_value", message, param=param or None)
        case exceptions.APIException():
            return ApiError(
                exception.status_code, str(exception.get_codes()), str(exception.detail)
            )
        case Http404():
            return ApiError(404, "not_found", "There is no such thing.")
    return internal()

"""Every way in which the API says no: OpenAI's error body, a true status, honest headers."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from engine import wire
from hosting.actions.refusals import Refusal
from hosting.engine_client import EngineUnavailable
from hosting.fields import first_error

RETRY_SECONDS = 10  # after which an engine that died is back, as a rule
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
        retry_seconds: float | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(message)
        self.status_code = status
        self.error_body = {
            "error": {"message": message, "type": type, "param": param, "code": code}
        }
        self.headers: dict[str, str] = {}
        if retry_seconds is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_seconds)))
        if is_final:
            self.headers["x-should-retry"] = "false"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """How one code of the wire looks over HTTP."""

    status: int
    type: str = _INVALID
    code: str | None = None  # None: the wire's own
    param: str | None = None
    retry_seconds: int | None = None
    is_final: bool = False


_ANSWERS = {
    wire.Code.INVALID_VALUE: _Answer(status=400),
    wire.Code.CONTEXT_LENGTH_EXCEEDED: _Answer(status=400, param="messages"),
    wire.Code.MODEL_NOT_FOUND: _Answer(status=404, param="model"),
    wire.Code.MODEL_LOAD_FAILED: _Answer(status=503, type=_SERVER, retry_seconds=RETRY_SECONDS),
    wire.Code.DOES_NOT_FIT: _Answer(status=503, type=_SERVER, is_final=True),
    wire.Code.QUEUE_FULL: _Answer(
        status=503,
        type="service_unavailable_error",
        code="server_is_overloaded",
        retry_seconds=RETRY_SECONDS,
    ),
    wire.Code.TENANT_QUEUE_FULL: _Answer(
        status=429, type="requests", code="rate_limit_exceeded", retry_seconds=5
    ),
    wire.Code.DEADLINE_EXCEEDED: _Answer(status=503, type=_SERVER, retry_seconds=RETRY_SECONDS),
    wire.Code.POISON: _Answer(status=500, type=_SERVER, is_final=True),
    wire.Code.ENGINE_ERROR: _Answer(status=500, type=_SERVER),
}


def of_event(event: wire.Refused | wire.Failed) -> ApiError:
    answer = _ANSWERS[event.code]
    message = event.detail
    if answer.status == 429:
        message += f" Please try again in {answer.retry_seconds}.0s."  # Codex reads this
    return ApiError(
        answer.status,
        answer.code or event.code,
        message,
        type=answer.type,
        param=answer.param or (event.param if isinstance(event, wire.Refused) else None),
        retry_seconds=answer.retry_seconds,
        is_final=answer.is_final,
    )


def engine_unavailable() -> ApiError:
    return ApiError(
        503,
        "engine_unavailable",
        "No engine is running at the moment.",
        type=_SERVER,
        retry_seconds=RETRY_SECONDS,
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
    """DRF's exception handler: whatever happens, the answer is JSON of one form."""
    error = _as_api_error(exception)
    if error.status_code == 500 or isinstance(exception, OperationalError):
        logger.error("unhandled error in %s", type(context["view"]).__name__, exc_info=exception)
    response = Response(error.error_body, status=error.status_code, headers=error.headers)
    challenge = getattr(exception, "auth_header", None)
    if challenge:
        response["WWW-Authenticate"] = challenge
    return response


def _as_api_error(exception: Exception) -> ApiError:
    match exception:
        case ApiError():
            return exception
        case Refusal():
            return ApiError(
                exception.status, exception.code, exception.message, param=exception.field
            )
        case EngineUnavailable():
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

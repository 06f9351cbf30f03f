"""What all JSON endpoints of the chat page share: who may call, how errors look."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.csrf import csrf_failure as csrf_failure_page
from rest_framework.serializers import Serializer

from hosting.actions.refusals import Refusal
from hosting.fields import first_error
from hosting.json_body import BadJson, read_json

logger = logging.getLogger(__name__)
Handler = Callable[..., HttpResponseBase]


def endpoint(**handlers: Handler) -> Handler:
    """A view from one handler per method: endpoint(GET=show, DELETE=remove)."""

    def view(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
        method = "GET" if request.method == "HEAD" else request.method
        handler = handlers.get(method or "")
        if not request.user.is_authenticated:
            return error("signed_out", "Sign in first.", status=401)
        if handler is None:
            return error("method_not_allowed", "This cannot be done here.", status=405)
        try:
            return handler(request, **arguments)
        except Refusal as refusal:
            return error(refusal.code, refusal.message, field=refusal.field, status=refusal.status)
        except OperationalError:
            logger.exception("the database does not answer")
            message = "This cannot be stored at the moment. Try again soon."
            return error("database_unavailable", message, status=503)

    return view


def error(code: str, message: str, *, status: int, field: str | None = None) -> JsonResponse:
    body = {"error": {"code": code, "message": message, "field": field}}
    return JsonResponse(body, status=status)


def validated(request: HttpRequest, serializer: type[Serializer[Any]]) -> dict[str, Any]:
    """The body, checked. Raises Refusal naming the first field at fault."""
    try:
        data = read_json(request.body)
    except BadJson as bad:
        raise Refusal("invalid_json", str(bad), field=bad.field) from None
    except RequestDataTooBig:
        raise Refusal("too_large", "This is more than can be sent at once.", status=413) from None
    checked = serializer(data=data)
    if not checked.is_valid():
        field, message = first_error(checked.errors)
        raise Refusal("invalid_value", message, field=field or None)
    return dict(checked.validated_data)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if request.path.startswith("/chat/"):
        return error("csrf", "Reload the page and try again.", status=403)
    return csrf_failure_page(request, reason)

"""What every response carries: an id to quote, what the page may load, whether it may be kept,
and words at a dead end.

All async-capable.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.utils.decorators import sync_and_async_middleware

from hosting.django_middleware import API_PREFIX
from hosting.logs import request_id_of_this_task

Handler = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
RETRY_SECONDS = 10

logger = logging.getLogger(__name__)

_PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
# The admin theme's Alpine build evaluates attributes, and its templates have inline scripts
_ADMIN_POLICY = _PAGE_POLICY.replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline' 'unsafe-eval'"
)


def _around(
    get_response: Handler,
    before: Callable[[HttpRequest], None],
    after: Callable[[HttpRequest, Any], None],
) -> Handler:
    """A middleware of the same colour as what it wraps."""

    async def answer_async(request: HttpRequest) -> HttpResponseBase:
        before(request)
        response = await get_response(request)  # type: ignore[misc]
        after(request, response)
        return response

    def answer(request: HttpRequest) -> HttpResponseBase:
        before(request)
        response = get_response(request)
        after(request, response)
        return response  # type: ignore[return-value]

    return answer_async if iscoroutinefunction(get_response) else answer


@sync_and_async_middleware
def request_ids(get_response: Handler) -> Handler:
    """Give each HTTP request an id: in the logs, and in both headers that the SDKs read."""

    def before(request: HttpRequest) -> None:
        request.request_id = f"req_{secrets.token_hex(12)}"  # type: ignore[attr-defined]
        request_id_of_this_task.set(request.request_id)  # type: ignore[attr-defined]

    def after(request: HttpRequest, response: Any) -> None:
        response["x-request-id"] = response["request-id"] = request.request_id  # type: ignore[attr-defined]

    return _around(get_response, before, after)


@sync_and_async_middleware
def content_security_policy(get_response: Handler) -> Handler:
    """Pages load what this server sends and nothing else (no inline scripts outside the admin)."""

    def after(request: HttpRequest, response: Any) -> None:
        is_admin = request.path.startswith("/admin/")
        response.setdefault("Content-Security-Policy", _ADMIN_POLICY if is_admin else _PAGE_POLICY)

    return _around(get_response, lambda request: None, after)


@sync_and_async_middleware
def not_stored(get_response: Handler) -> Handler:
    """What who is signed in was shown stays in no cache: others may use the browser after them."""

    def after(request: HttpRequest, response: Any) -> None:
        is_page = not request.path_info.startswith(API_PREFIX)
        if is_page and settings.SESSION_COOKIE_NAME in request.COOKIES:
            response.setdefault("Cache-Control", "no-store")

    return _around(get_response, lambda request: None, after)


@sync_and_async_middleware
def dead_ends(get_response: Handler) -> Handler:
    """Who opens what only takes a form, as after a sign-in on the way, is told so: Django's answer
    is blank. Who needs the database while it is away is told so too."""

    def after(request: HttpRequest, response: Any) -> None:
        is_blank = response.status_code == 405 and not response.content
        if is_blank and request.accepts("text/html"):
            response.content = render_to_string("405.html")

    answer = _around(get_response, lambda request: None, after)
    answer.process_exception = _database_away  # type: ignore[attr-defined]
    return answer


def _database_away(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """On a full disk nobody can sign in, for the attempt cannot be counted."""
    if not isinstance(error, OperationalError):
        return None
    logger.error("the database does not answer", exc_info=error)
    page = render_to_string("503.html")
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})

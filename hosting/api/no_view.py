"""What is told to calls that reach no view: at an address, or by a name, that there is not."""

from __future__ import annotations

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from hosting.api.anthropic_errors import anthropic_form
from hosting.api.anthropic_models import speaks_anthropic
from hosting.api.errors import ApiError, openai_form
from hosting.django_middleware import API_PREFIX


@csrf_exempt
def unknown_address(http_request: HttpRequest) -> JsonResponse:
    message = f"Unknown request URL: {http_request.method} {http_request.path}."
    if "//" in http_request.path:
        message += " Two slashes follow each other: the base URL must not end with one."
    return _in_json(ApiError(404, "unknown_url", message), http_request)


def not_found(http_request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404, also for scripts whose base URL ends with a slash."""
    if f"/{http_request.path.lstrip('/')}".startswith(API_PREFIX):
        return unknown_address(http_request)
    return defaults.page_not_found(http_request, exception)


def bad_request(http_request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400, also for people: a name that nobody allowed has a sentence."""
    if not isinstance(exception, DisallowedHost):
        return defaults.bad_request(http_request, exception)
    if not http_request.path.startswith(API_PREFIX):
        return HttpResponse(render_to_string("unknown_host.html"), status=400)
    error = ApiError(
        400,
        "unknown_host",
        "This server does not answer to the host name in the address. "
        "Its administrator adds it to HEARTH_ALLOWED_HOSTS.",
    )
    return _in_json(error, http_request)


def _in_json(error: ApiError, http_request: HttpRequest) -> JsonResponse:
    form = anthropic_form if speaks_anthropic(http_request) else openai_form
    return JsonResponse(form(error).body, status=error.status_code)

"""The pages of plots, memory and prefix cache, and the address their history is also had from."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from hosting.actions.history import WINDOWS
from hosting.admin.cache_clearing import CLEAR_PERMISSION
from hosting.admin.history_data import INSTRUMENTS, asked_of, history_data
from hosting.admin.memory_limit import LIMIT_PERMISSION


@require_GET
def memory(request: HttpRequest) -> HttpResponse:
    may_limit = request.user.has_perm(LIMIT_PERMISSION)
    return _page(request, "memory", title="Memory", may_limit=may_limit)


@require_GET
def cache(request: HttpRequest) -> HttpResponse:
    may_clear = request.user.has_perm(CLEAR_PERMISSION)
    return _page(request, "cache", title="Prefix cache", may_clear=may_clear)


@require_GET
@never_cache
def data(request: HttpRequest, instrument: str) -> JsonResponse:
    """What the socket pushes, for a page that has none."""
    if instrument not in INSTRUMENTS:
        raise Http404
    return JsonResponse(_history(request, instrument))


def _page(request: HttpRequest, instrument: str, *, title: str, **context: Any) -> HttpResponse:
    context |= {
        **admin.site.each_context(request),
        "title": title,
        "instrument": instrument,
        "windows": WINDOWS.values(),
        "history": _history(request, instrument),
    }
    return TemplateResponse(request, f"admin/{instrument}.html", context)


def _history(request: HttpRequest, instrument: str) -> dict[str, Any]:
    if not request.user.has_perm(INSTRUMENTS[instrument].permission):
        raise PermissionDenied
    return history_data(asked_of(instrument, request.GET.dict()))

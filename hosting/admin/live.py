"""The live page: engines and who waits for them, renewed every second, and a stop button."""

from __future__ import annotations

import uuid

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from hosting.actions.history import WINDOWS
from hosting.admin.history_data import SEE_REQUESTS, asked_of, history_data
from hosting.admin.live_data import live_data
from hosting.admin.stopping import STOP_PERMISSION, stop_generations
from hosting.models import Generation


@require_GET
@permission_required(SEE_REQUESTS, raise_exception=True)
def page(request: HttpRequest) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": "Live",
        "instrument": "live",
        "windows": WINDOWS.values(),
        "data": live_data(),
        "history": history_data(asked_of("live", {"window": "5m"} | request.GET.dict())),
        "may_stop": request.user.has_perm(STOP_PERMISSION),
    }
    return TemplateResponse(request, "admin/live.html", context)


@require_GET
@never_cache
@permission_required(SEE_REQUESTS, raise_exception=True)
def data(request: HttpRequest) -> JsonResponse:
    return JsonResponse(live_data())


@require_POST
@permission_required(STOP_PERMISSION, raise_exception=True)
def stop(request: HttpRequest, generation_id: uuid.UUID) -> JsonResponse:
    """Ask for the end of one generation. One that has ended meanwhile is no error."""
    generation = get_object_or_404(Generation.objects.defer("request"), pk=generation_id)
    return JsonResponse({"stopped": stop_generations(request, [generation])})

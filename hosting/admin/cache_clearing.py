"""Clears what engines keep of models' prompts, by name: also where a model is not registered."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.confirmation import TEMPLATE
from accounts.audit import address_of
from engine import wire
from hosting.actions.engine_orders import clear_prefixes
from hosting.engine_client import EngineUnavailable

CLEAR_PERMISSION = "hosting.change_hostedmodel"
_WORDS = {
    wire.CacheTier.MEMORY: (
        "Forget what memory keeps of these models' prompts?",
        "What is on disk comes back from there; the rest is computed again.",
    ),
    wire.CacheTier.DISK: (
        "Delete what the disk keeps of these models' prompts?",
        "After a restart each conversation is computed from its beginning once.",
    ),
}


@require_POST
@permission_required(CLEAR_PERMISSION, raise_exception=True)
def clear(request: HttpRequest) -> HttpResponse:
    asked, models = request.POST.get("tier"), request.POST.getlist("model")
    if asked not in _WORDS or not models:
        messages.error(request, "Nothing was cleared: choose a tier and a model.")
        return redirect("admin:cache")
    tier = wire.CacheTier(asked)
    if "confirmed" not in request.POST:
        return _ask_first(request, tier, models)
    try:
        clear_prefixes(models, tier, by=request.user, address=address_of(request))
    except EngineUnavailable:
        messages.error(request, "Redis is away: try again when it is back.")
    else:
        messages.success(request, "Clear: asked for.")
    return redirect("admin:cache")


def _ask_first(request: HttpRequest, tier: wire.CacheTier, models: list[str]) -> HttpResponse:
    question, consequence = _WORDS[tier]
    context = {
        **admin.site.each_context(request),
        "title": question,
        "consequence": consequence,
        "button": "Clear",
        "objects": models,
        "fields": [("tier", tier), *(("model", name) for name in models)],
        "post_url": reverse("admin:cache-clear"),
        "back_url": reverse("admin:cache"),
    }
    return TemplateResponse(request, TEMPLATE, context)

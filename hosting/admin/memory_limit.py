"""The memory limit of an engine, set while it runs by who may change it."""

from __future__ import annotations

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.confirmation import TEMPLATE
from accounts.audit import address_of
from hosting.actions.engine_orders import change_memory_limit

LIMIT_PERMISSION = "hosting.change_memorylimit"
_GIB = 1024**3
_LEAST_GB = 0.25


class MemoryLimitForm(forms.Form):
    """`limit_gb` empty: the limit that the engine started with."""

    engine = forms.CharField(max_length=100)
    limit_gb = forms.FloatField(required=False, min_value=_LEAST_GB, max_value=1_000_000)

    @property
    def limit_bytes(self) -> int | None:
        gigabytes = self.cleaned_data["limit_gb"]
        return None if gigabytes is None else int(gigabytes * _GIB)


@require_POST
@permission_required(LIMIT_PERMISSION, raise_exception=True)
def change_limit(request: HttpRequest) -> HttpResponse:
    """Requests that no longer fit give way and go on later."""
    form = MemoryLimitForm(request.POST)
    if not form.is_valid():
        reason = next(iter(form.errors.values()))[0]
        messages.error(request, f"The memory limit was not changed: {reason}")
        return redirect("admin:memory")
    engine, limit_bytes = form.cleaned_data["engine"], form.limit_bytes
    if "confirmed" not in request.POST:
        return _ask_first(request, engine, limit_bytes)
    change_memory_limit(engine, limit_bytes, by=request.user, address=address_of(request))
    messages.success(request, f"The memory limit of {engine} is changed.")
    return redirect("admin:memory")


def _ask_first(request: HttpRequest, engine: str, limit_bytes: int | None) -> HttpResponse:
    size = "what it started with" if limit_bytes is None else f"{limit_bytes / _GIB:g} GB"
    context = {
        **admin.site.each_context(request),
        "title": f"Change the memory limit of {engine} to {size}?",
        "consequence": "It counts at once. Rows that no longer fit give way and go on later; "
        "what can never fit is refused.",
        "button": "Change the limit",
        "fields": [("engine", engine), ("limit_gb", request.POST.get("limit_gb", ""))],
        "post_url": reverse("admin:memory-limit"),
        "back_url": reverse("admin:memory"),
    }
    return TemplateResponse(request, TEMPLATE, context)

"""A page that asks before an admin action does what cannot be undone."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

TEMPLATE = "admin/confirm_action.html"


def ask_first(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Any],
    *,
    action: str,
    question: str,
    consequence: str,
    button: str,
) -> TemplateResponse | None:
    """The page with the question; None once it has been answered with yes.

    `action` is the list action that the answer is posted to, wherever the question came from.
    """
    if request.method == "POST" and "confirmed" in request.POST:
        return None
    opts = model_admin.model._meta
    list_url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    chosen = [(ACTION_CHECKBOX_NAME, str(one.pk)) for one in queryset]
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": opts,
        "title": question,
        "consequence": consequence,
        "button": button,
        "objects": list(queryset),
        "fields": [("action", action), *chosen],
        "post_url": list_url,
        "back_url": list_url,
    }
    return TemplateResponse(request, TEMPLATE, context)

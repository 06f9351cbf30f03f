"""A page that asks before an admin action does what cannot be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

TEMPLATE = "admin/confirm_action.html"
_OTHER_FIELDS = 3  # posted with the rows: the answer, the action and the token of the form


def ask_first(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    queryset: QuerySet[Any],
    *,
    action: str,
    question: str,
    consequence: str,
    button: str,
    describe: Callable[[Any], str] = str,
) -> HttpResponse | None:
    """The page with the question; None once it has been answered with yes.

    For more rows than a form may post it is the list again, which says so. `action` is the list
    action that the answer is posted to, wherever the question came from; `describe` names a row.
    """
    if request.method == "POST" and "confirmed" in request.POST:
        return None
    opts = model_admin.model._meta
    list_url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    most_rows = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS - _OTHER_FIELDS
    if queryset.count() > most_rows:
        model_admin.message_user(
            request, f"Choose fewer: at most {most_rows:,} at once.", messages.ERROR
        )
        return redirect(list_url)
    chosen = [(ACTION_CHECKBOX_NAME, str(one.pk)) for one in queryset]
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": opts,
        "title": question,
        "consequence": consequence,
        "button": button,
        "objects": [describe(one) for one in queryset],
        "fields": [("action", action), *chosen],
        "post_url": list_url,
        "back_url": list_url,
    }
    return TemplateResponse(request, TEMPLATE, context)

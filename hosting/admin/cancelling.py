"""The list action that stops what is open of the chosen rows, after it has asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from accounts.admin.confirmation import ask_first


def cancel_open(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    open_ones: QuerySet[Any],
    cancel: Callable[[Any], bool],
    *,
    action: str = "cancel",
    **asking: Any,
) -> HttpResponse | None:
    """`cancel` says whether it was open until then; `asking` as `ask_first` has it."""
    if not open_ones:
        model_admin.message_user(request, "They have all ended.", messages.WARNING)
        return None
    page = ask_first(model_admin, request, open_ones, action=action, **asking)
    if page is not None:
        return page
    num_cancelled = sum(map(cancel, open_ones))
    model_admin.message_user(request, f"Cancelled: {num_cancelled}.", messages.SUCCESS)
    return None

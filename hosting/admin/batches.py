"""Batches in the administration: whose, how far, how they ended. Never what was said."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from unfold.decorators import display

from accounts.admin.grouped import grouped
from accounts.admin.usage import OwnedRowsAdmin
from accounts.audit import record_of
from hosting.actions.batches import cancel_batch
from hosting.actions.refusals import Refusal
from hosting.admin.cancelling import cancel_open
from hosting.admin.stopping import STOP_PERMISSION
from hosting.models import Batch

_STATUS_COLOURS = {
    Batch.Status.IN_PROGRESS.label: "warning",
    Batch.Status.COMPLETED.label: "success",
    Batch.Status.FAILED.label: "danger",
    Batch.Status.EXPIRED.label: "danger",
}
_UNTOLD = ("metadata", "errors")  # they are the person's own words


@admin.register(Batch)
class BatchAdmin(OwnedRowsAdmin):
    list_display = ["when", "status_label", "user", "api_key", "endpoint", "model_name"]
    list_display += ["progress"]
    list_filter = ["status", "created_at"]
    empty_help = "Scripts begin them with the API."
    actions = ["cancel"]
    fieldsets = [
        (None, {"fields": ["id", "status", "user", "api_key", "endpoint", "model_name"]}),
        ("Requests", {"fields": [("num_lines", "num_completed", "num_failed")]}),
        ("Tokens", {"fields": [(grouped("prompt_tokens"), grouped("completion_tokens"))]}),
        ("Dates", {"fields": [("created_at", "expires_at", "ended_at")]}),
    ]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        is_said = lookup.partition("__")[0] in _UNTOLD
        return not is_said and super().lookup_allowed(lookup, value, request)

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(STOP_PERMISSION)

    @admin.display(description="When (UTC)", ordering="created_at")
    def when(self, batch: Batch) -> str:
        return date_format(localtime(batch.created_at), "j M, H:i:s")

    @display(description="Status", label=_STATUS_COLOURS)
    def status_label(self, batch: Batch) -> str:
        return batch.get_status_display()

    @admin.display(description="Done (failed)")
    def progress(self, batch: Batch) -> str:
        return f"{batch.num_done:,} of {batch.num_lines:,} ({batch.num_failed:,})"

    @admin.action(description="Cancel", permissions=["stop"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return cancel_open(
            self,
            request,
            queryset.open(),
            partial(_cancel, request),
            question="Cancel these batches?",
            consequence="What runs of them ends now. What is done can be read by their people.",
            button="Cancel batches",
            describe=self._whose,
        )

    def _whose(self, batch: Batch) -> str:
        return f"{batch.user}, {self.progress(batch)}, since {self.when(batch)} UTC"


def _cancel(request: HttpRequest, batch: Batch) -> bool:
    try:
        cancel_batch(batch)
    except Refusal:  # it has ended meanwhile
        return False
    record_of(request, "batch.cancel", target=f"{batch} of {batch.user}")
    return True

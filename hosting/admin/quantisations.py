"""Quantised copies in the administration: how far each is, how it ended; cancelled here."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.formats import date_format
from django.utils.timezone import localtime
from unfold.decorators import display

from accounts.admin.usage import ReadOnlyAdmin
from accounts.audit import address_of
from hosting.actions.quantisations import cancel_copy, way_of
from hosting.admin.cancelling import cancel_open
from hosting.admin.under_way import UnderWayList
from hosting.models import Quantisation

_STATE_COLOURS = {
    Quantisation.State.RUNNING: "warning",
    Quantisation.State.DONE: "success",
    Quantisation.State.FAILED: "danger",
}


@admin.register(Quantisation)
class QuantisationAdmin(UnderWayList, ReadOnlyAdmin):
    list_display = ["title", "state_label", "way", "size", "when", "detail"]
    list_filter = ["state", "created_at"]
    empty_help = "The page of a model has a button to quantise it."
    actions = ["cancel"]
    fieldsets = [
        (None, {"fields": ["name", "source_name", "way", "size"]}),
        ("How far", {"fields": ["state", "detail", ("created_at", "ended_at")]}),
    ]
    readonly_fields = ["way", "size"]

    def is_under_way(self) -> bool:
        return Quantisation.objects.open().exists()

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("hosting.add_hostedmodel")

    @display(description="Copy", header=True, ordering="name")
    def title(self, job: Quantisation) -> tuple[str, str]:
        return job.name, f"of {job.source_name}"

    @display(description="State", label=_STATE_COLOURS)
    def state_label(self, job: Quantisation) -> tuple[str, str]:
        """Its colour's name, and what is said."""
        is_running = job.state == Quantisation.State.RUNNING
        return job.state, f"running {job.fraction:.0%}" if is_running else job.state

    @admin.display(description="Way")
    def way(self, job: Quantisation) -> str:
        return str(way_of(job))

    @admin.display(description="Size, about", ordering="estimated_bytes")
    def size(self, job: Quantisation) -> str:
        return filesizeformat(job.estimated_bytes)

    @admin.display(description="Asked for (UTC)", ordering="created_at")
    def when(self, job: Quantisation) -> str:
        return date_format(localtime(job.created_at), "j M, H:i:s")

    @admin.action(description="Cancel", permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return cancel_open(
            self,
            request,
            queryset.open(),
            partial(cancel_copy, by=request.user, address=address_of(request)),
            question="Cancel these copies?",
            consequence="What is written of them is deleted. The models themselves stay.",
            button="Cancel copies",
        )

"""Generations in the administration: who, what for, how it went. Never what was said."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from unfold.decorators import display

from accounts.admin import search
from accounts.admin.confirmation import ask_first
from accounts.admin.grouped import grouped
from accounts.admin.usage import OwnedRowsAdmin
from hosting.admin.cache_figures import prefix_words
from hosting.admin.stopping import STOP_PERMISSION, stop_generations
from hosting.models import Generation, HostedModel

_STATE_COLOURS = {
    Generation.State.QUEUED.label: "info",
    Generation.State.RUNNING.label: "warning",
    Generation.State.DONE.label: "success",
    Generation.State.FAILED.label: "danger",
}


class ModelFilter(admin.SimpleListFilter):
    """By registered model: the names come from the registry, not from a walk over all rows."""

    title = "model"
    parameter_name = "model_name"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in HostedModel.objects.values_list("name", flat=True)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(model_name=self.value()) if self.value() else queryset


@admin.register(Generation)
class GenerationAdmin(OwnedRowsAdmin):
    list_display = ["when", "state_label", "user", "source", "model_name"]
    list_display += ["prompt", "written", "result"]
    list_filter = ["state", "kind", ModelFilter, "created_at"]
    search_help_text = f"{search.HELP} Or the id of a request."
    actions = ["stop"]
    fieldsets = [
        (None, {"fields": ["id", "state", "kind", "user", "api_key", "client", "model_name"]}),
        ("How it ended", {"fields": ["finish_reason", "error_code", "error_detail"]}),
        (
            "Tokens",
            {
                "fields": [
                    (grouped("prompt_tokens"), grouped("cached_tokens")),
                    (grouped("completion_tokens"), grouped("reasoning_tokens")),
                    "nearest_prefix",
                ]
            },
        ),
        ("Time", {"fields": [("queued", "first_token", "writing")]}),
        ("Queue", {"fields": [("tenant", "priority")]}),
        ("Dates", {"fields": [("created_at", "finished_at")]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("request")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Nor is what was said found out by trying: an address may filter by any column."""
        is_said = lookup.partition("__")[0] == "request"
        return not is_said and super().lookup_allowed(lookup, value, request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        with contextlib.suppress(ValueError):
            return queryset.filter(pk=uuid.UUID(search_term.strip())), False
        return super().get_search_results(request, queryset, search_term)

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(STOP_PERMISSION)

    @admin.display(description="When (UTC)", ordering="created_at")
    def when(self, generation: Generation) -> str:
        return date_format(localtime(generation.created_at), "j M, H:i:s")

    @admin.display(description="Nearest stored prefix")
    def nearest_prefix(self, generation: Generation) -> str:
        """Where the prompt left it, and why no more of it was used."""
        if generation.nearest_tokens is None:
            return "-"
        return prefix_words(generation.nearest_tokens, generation.prefix_miss)

    @display(description="From", header=True)
    def source(self, generation: Generation) -> tuple[str, str]:
        key = generation.api_key
        return key.name if key else generation.get_kind_display(), generation.client

    @display(description="State", label=_STATE_COLOURS)
    def state_label(self, generation: Generation) -> str:
        return generation.get_state_display()

    @admin.display(description="Prompt (cached)", ordering="prompt_tokens")
    def prompt(self, generation: Generation) -> str:
        return f"{generation.prompt_tokens:,} ({generation.cached_tokens:,})"

    @admin.display(description="Written", ordering="completion_tokens")
    def written(self, generation: Generation) -> str:
        return f"{generation.completion_tokens:,}"

    @admin.display(description="First token, or error", ordering="ttft_seconds")
    def result(self, generation: Generation) -> str | None:
        """After how long it came, or why it did not."""
        return generation.error_code or self.first_token(generation)

    @admin.display(description="Queued for")
    def queued(self, generation: Generation) -> str | None:
        return _seconds(generation.queued_seconds)

    @admin.display(description="First token after")
    def first_token(self, generation: Generation) -> str | None:
        return _seconds(generation.ttft_seconds)

    @admin.display(description="Writing took")
    def writing(self, generation: Generation) -> str | None:
        return _seconds(generation.decode_seconds)

    @admin.action(description="Stop", permissions=["stop"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        still_open = queryset.filter(state__in=Generation.OPEN_STATES)
        if not still_open:
            self.message_user(request, "They have all ended.", messages.WARNING)
            return None
        page = ask_first(
            self,
            request,
            still_open,
            action="stop",
            question="Stop these generations?",
            consequence="They end now. What was written so far is kept.",
            button="Stop",
            describe=self._whose,
        )
        if page is not None:
            return page
        num_stopped = stop_generations(request, still_open)
        self.message_user(request, f"Stopped: {num_stopped}.", messages.SUCCESS)
        return None

    def _whose(self, generation: Generation) -> str:
        return f"{generation.user}, {generation.model_name}, since {self.when(generation)} UTC"


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.2f} s"

"""The ledger in the administration: read, filtered, never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.functional import cached_property
from django.utils.timezone import localtime
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from accounts.admin import search
from accounts.admin.grouped import grouped
from accounts.models import HourlyUsage, UsageRecord

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
MAX_PAGES = 100  # whoever looks for older lines filters by date


class ShortPaginator(InfinitePaginator):
    """Counts nothing, and ends where every page before would have to be walked over."""

    @cached_property
    def count(self) -> int:
        return MAX_PAGES * int(self.per_page)


class ReadOnlyAdmin(ModelAdmin):
    """Rows that others write. Lists stay fast: nothing is counted, names come by join."""

    show_full_result_count = False
    is_uncounted = True
    empty_help = "The first answer makes the first line."
    paginator = ShortPaginator
    list_per_page = 50
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class OwnedRowsAdmin(ReadOnlyAdmin):
    """Rows of people and keys: searched by whose they are, or by their model."""

    list_select_related = ["user", "api_key"]
    search_fields = ["model_name"]  # without any there is no box; search.py says what is searched
    search_help_text = search.HELP

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (search.rows_of(term, queryset) if term else queryset), False


@admin.register(UsageRecord)
class UsageRecordAdmin(OwnedRowsAdmin):
    list_display = ["when", "end_label", "user", "source", "model_name"]
    list_display += [*map(grouped, _TOKENS), "duration"]
    list_filter = ["end", "created_at"]

    @admin.display(description="When (UTC)", ordering="created_at")
    def when(self, record: UsageRecord) -> str:
        return date_format(localtime(record.created_at), "j M, H:i:s")

    @display(description="From", header=True)
    def source(self, record: UsageRecord) -> tuple[str, str]:
        return record.api_key.name if record.api_key else "Chat", record.client

    @admin.display(description="Took", ordering="duration_seconds")
    def duration(self, record: UsageRecord) -> str:
        return f"{record.duration_seconds:.1f} s"

    @display(
        description="End",
        label={"failed": "danger", "refused": "danger", "cancelled": "warning", "stop": "success"},
    )
    def end_label(self, record: UsageRecord) -> tuple[str, str]:
        return record.end, record.get_end_display()


@admin.register(HourlyUsage)
class HourlyUsageAdmin(OwnedRowsAdmin):
    list_display = ["period", "user", "api_key", "model_name"]
    list_display += map(grouped, ("requests", "errors", *_TOKENS))
    list_filter = ["period"]

"""The ledger in the administration: read, filtered, never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.timezone import localtime
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from accounts.models import HourlyUsage, UsageRecord


class ReadOnlyAdmin(ModelAdmin):
    """Rows that others write. Lists stay fast: nothing is counted, names come by join."""

    show_full_result_count = False
    paginator = InfinitePaginator
    list_per_page = 50
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    list_display = ["when", "end_label", "user", "source", "model_name"]
    list_display += ["prompt_tokens", "cached_tokens", "completion_tokens", "duration"]
    list_filter = ["end", "created_at"]
    list_select_related = ["user", "api_key"]
    search_fields = ["user__email", "api_key__prefix", "model_name", "client"]

    @admin.display(description="When", ordering="created_at")
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
class HourlyUsageAdmin(ReadOnlyAdmin):
    list_display = ["period", "user", "api_key", "model_name", "requests", "errors"]
    list_display += ["prompt_tokens", "cached_tokens", "completion_tokens"]
    list_filter = ["period"]
    list_select_related = ["user", "api_key"]
    search_fields = ["user__email", "api_key__prefix", "model_name"]

"""The audit record in the administration: read and searched, never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.timezone import localtime

from accounts.admin.usage import ReadOnlyAdmin
from accounts.models import AuditHead, AuditRecord

LATEST = 20_000


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    list_display = ["when", "actor", "address", "action", "target", "before", "after"]
    list_filter = ["created_at"]
    search_fields = ["actor", "action", "target", "address"]
    empty_help = "Sign-ins and changes will be told here."
    fields = ["when", ("actor", "address"), ("action", "target"), "before", "after"]
    readonly_fields = ["when"]
    search_help_text = (
        "Who, what (for example key.revoke), on what, or from which address; "
        f"a part of it finds what is among the latest {LATEST:,} records."
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By an index, however long the record is; parts of words only near its end."""
        term = search_term.strip()
        for name in self.search_fields if term else ():
            exactly = queryset.filter(**{name: term.lower() if name == "actor" else term})
            if exactly.order_by().exists():
                return exactly, False
        if term:
            head = AuditHead.objects.first()
            queryset = queryset.filter(number__gt=head.number - LATEST if head else 0)
        return super().get_search_results(request, queryset, term)

    @admin.display(description="When", ordering="number")
    def when(self, record: AuditRecord) -> str:
        return date_format(localtime(record.created_at), "j M Y, H:i:s e")

"""The audit record in the administration: read and searched, never changed."""

from __future__ import annotations

from django.contrib import admin
from django.utils.formats import date_format
from django.utils.timezone import localtime

from accounts.admin.usage import ReadOnlyAdmin
from accounts.models import AuditRecord


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    list_display = ["when", "actor", "address", "action", "target", "before", "after"]
    list_filter = ["created_at"]
    search_fields = ["actor", "action", "target", "address"]
    empty_help = "Sign-ins and changes will be told here."
    fields = ["when", ("actor", "address"), ("action", "target"), "before", "after"]
    readonly_fields = ["when"]
    search_help_text = "Who, what (for example key.revoke), on what, or from which address."

    @admin.display(description="When", ordering="number")
    def when(self, record: AuditRecord) -> str:
        return date_format(localtime(record.created_at), "j M Y, H:i:s e")

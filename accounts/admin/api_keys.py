"""API keys in the administration: whose, since when, last used; revoke. Never the secret."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display

from accounts.admin.audited import AuditedAdmin
from accounts.admin.confirmation import ask_first
from accounts.admin.quotas import KeyQuotaInline
from accounts.audit import address_of
from accounts.keys import revoke_api_key
from accounts.models import ApiKey


@admin.register(ApiKey)
class ApiKeyAdmin(AuditedAdmin):
    """People make their own keys, so that nobody else ever sees the secret."""

    audit_noun = "key"
    inlines = [KeyQuotaInline]
    list_display = ["name", "prefix", "user", "status", "created_at", "expires_at", "last_used_at"]
    list_filter = ["revoked_at", "created_at", "last_used_at"]
    list_select_related = ["user"]
    list_per_page = 50
    empty_help = "People make their own on the page API keys."
    show_full_result_count = False
    search_fields = ["name", "prefix", "user__email", "user__name"]
    fields = [
        "user",
        "name",
        "prefix",
        "status",
        "created_at",
        "expires_at",
        "revoked_at",
        "scopes",
    ]
    fields += ["last_used_at", "last_used_address", "last_used_client"]
    readonly_fields = [name for name in fields if name not in ("name", "expires_at")]
    actions = ["revoke"]
    actions_detail = ["revoke_this"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @display(label={"works": "success", "expired": "warning", "revoked": "danger"})
    def status(self, key: ApiKey) -> str:
        if key.is_revoked:
            return "revoked"
        return "expired" if key.is_expired else "works"

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        page = ask_first(
            self,
            request,
            queryset,
            action="revoke",
            question="Revoke these keys?",
            consequence="Programs that use them are refused from now on. This cannot be undone.",
            button="Revoke",
        )
        if page is not None:
            return page
        for key in queryset:
            revoke_api_key(key, by=request.user, address=address_of(request))
        self.message_user(request, f"Revoked: {len(queryset)}.", messages.SUCCESS)
        return None

    def delete_model(self, request: HttpRequest, obj: ApiKey) -> None:
        """Ends first what runs under it."""
        revoke_api_key(obj, by=request.user, address=address_of(request))
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for key in queryset:
            self.delete_model(request, key)

    @action(description="Revoke", url_path="revoke", permissions=["change"], icon="block")
    def revoke_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.revoke(request, self.only(request, object_id))

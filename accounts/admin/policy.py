"""The policies of the installation: one row, so its list is its form."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from accounts.admin.audited import AuditedAdmin
from accounts.models import Policy


@admin.register(Policy)
class PolicyAdmin(AuditedAdmin):
    audit_noun = "policy"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        Policy.objects.get_or_create(pk=1)
        return redirect("admin:accounts_policy_change", 1)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Policy | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Policy | None = None) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Policy | None = None) -> bool:
        """Not for staff: whoever may switch this may read everything."""
        return bool(request.user.is_superuser)

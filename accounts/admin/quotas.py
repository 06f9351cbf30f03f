"""Limits in the administration: beside the person, group or key they belong to."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from unfold.admin import StackedInline
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.audited import AuditedAdmin
from accounts.admin.fresh_form import FreshForm, FreshFormMixin, FreshFormSet
from accounts.admin.grouped import grouped
from accounts.models import Quota

_Rows = list[str | tuple[str, ...]]
_ROWS: _Rows = [
    "allowed_models",
    ("requests_per_minute", "tokens_per_minute"),
    ("max_concurrent", "max_queued"),
    ("tokens_per_day", "tokens_per_month"),
    ("time_zone", "cached_tokens_count"),
    ("max_context_tokens", "max_output_tokens"),
    ("weight", "highest_class"),
]
_FOR_EVERYBODY = "These hold for everybody where a person, a group or a key has none of its own."
_SHARED: _Rows = [("shared_tokens_per_day", "shared_tokens_per_month")]


def _fieldsets(rows: _Rows) -> list[tuple[str | None, dict[str, Any]]]:
    return [(None, {"fields": rows})]


class NamesField(forms.CharField):
    """A list of names, typed with commas between them."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [name for part in str(value or "").split(",") if (name := part.strip())]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


class QuotaForm(FreshForm):
    allowed_models = NamesField(
        required=False,
        label="Models",
        widget=UnfoldAdminTextInputWidget,
        help_text="Names with commas between them. Empty: all.",
    )

    class Meta:
        model = Quota
        fields = "__all__"

    def clean_allowed_models(self) -> list[str]:
        """Whoever may use only what there is not may use nothing. What is gone since stays."""
        names: list[str] = self.cleaned_data["allowed_models"]
        known: list[str] = import_string(settings.ACCOUNTS_MODEL_NAMES)()
        kept = self.initial.get("allowed_models") or []
        if unknown := [name for name in names if name not in {*known, *kept}]:
            raise forms.ValidationError(
                f"There is no model {unknown[0]}. Models: {', '.join(known) or 'none yet'}."
            )
        return names


class QuotaInline(FreshFormMixin, StackedInline):
    """Empty fields limit nothing here."""

    model = Quota
    form = QuotaForm
    formset = FreshFormSet
    fieldsets = _fieldsets(_ROWS)
    verbose_name = "set of limits"
    verbose_name_plural = "Limits"
    extra = 0
    max_num = 1


class KeyQuotaInline(QuotaInline):
    """A key's days begin where its person's do."""

    fieldsets = _fieldsets(["cached_tokens_count" if "time_zone" in row else row for row in _ROWS])


class GroupQuotaInline(QuotaInline):
    """A group may also share a budget."""

    fieldsets = _fieldsets([*_ROWS, *_SHARED])


@admin.register(Quota)
class EverybodysQuotaAdmin(AuditedAdmin):
    """The limits of everybody for whom nothing narrower is set."""

    audit_noun = "quota"
    form = QuotaForm
    fieldsets = [(None, {"fields": _ROWS, "description": _FOR_EVERYBODY})]
    empty_help = _FOR_EVERYBODY
    list_display = ["owner", "models"]
    list_display += map(grouped, ("max_concurrent", "requests_per_minute", "tokens_per_day"))

    @admin.display(description="Models")
    def models(self, quota: Quota) -> str:
        return ", ".join(quota.allowed_models) or "all"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Quota]:
        return super().get_queryset(request).filter(user=None, group=None, api_key=None)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Once they are saved there is no other to add."""
        more = {"show_save_and_add_another": False} | (extra_context or {})
        return super().add_view(request, form_url, more)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and not self.get_queryset(request).exists()

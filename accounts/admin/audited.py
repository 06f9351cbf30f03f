"""Admin pages whose changes go into the audit record: who, from where, before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.db.models import Model, QuerySet
from django.forms import BaseModelForm
from django.http import Http404, HttpRequest
from unfold.admin import ModelAdmin

from accounts import audit
from accounts.admin.fresh_form import FreshForm, FreshFormMixin


class AuditedAdmin(FreshFormMixin, ModelAdmin):
    """`audit_noun` begins the names of its events: "person" makes person.change."""

    audit_noun: str
    form = FreshForm

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        """Without the menu for other rows: no keyboard opens it, and it says not what it is."""
        field = super().formfield_for_dbfield(db_field, request, **options)
        if isinstance(getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            field.widget = field.widget.widget
        return field

    def get_or_404(self, request: HttpRequest, object_id: str) -> Any:
        """What an action on a page of its own is about; the address may say anything."""
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404
        return found

    def only(self, request: HttpRequest, object_id: str) -> QuerySet[Any]:
        return self.get_queryset(request).filter(pk=self.get_or_404(request, object_id).pk)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        verb = "change" if change else "add"
        audit.record_of(
            request, f"{self.audit_noun}.{verb}", target=obj, **changes_of(form, change)
        )

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        super().save_formset(request, form, formset, change)
        for inline in formset.forms:
            if inline.has_changed():
                verb = "remove" if inline in formset.deleted_forms else "change"
                noun = formset.model._meta.model_name
                told = changes_of(inline, bool(inline.instance.pk))
                audit.record_of(request, f"{noun}.{verb}", target=form.instance, **told)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        audit.record_of(request, f"{self.audit_noun}.delete", target=obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            audit.record_of(request, f"{self.audit_noun}.delete", target=obj)
        super().delete_queryset(request, queryset)


def changes_of(form: BaseModelForm[Any], is_change: bool) -> dict[str, dict[str, Any]]:
    """What a checked form changed, as plain values."""
    names = [name for name in form.changed_data if name in form.cleaned_data]
    after = {name: _plain(form.cleaned_data[name]) for name in names}
    before = {name: _plain(form.initial.get(name)) for name in names} if is_change else {}
    return {"before": before, "after": after}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return value
    if isinstance(value, Iterable) and not isinstance(value, Model):
        return sorted(str(one) for one in value)
    return str(value)

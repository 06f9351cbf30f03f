"""The registry of models in the administration: settings, add, load, unload, make default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from unfold.decorators import action, display

from accounts.admin.audited import AuditedAdmin
from accounts.admin.confirmation import ask_first
from accounts.audit import record_of
from engine import wire
from hosting.actions import hosted_models
from hosting.admin.new_model_form import NewModelForm
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import HostedModel

Change = Callable[[HostedModel], None]


@admin.register(HostedModel)
class HostedModelAdmin(AuditedAdmin):
    audit_noun = "model"
    list_display = ["name", "display_name", "state_label", "is_default", "is_enabled"]
    list_display += ["kind", "size", "context_limit_tokens", "source"]
    list_filter = ["kind", "state", "source", "is_enabled"]
    search_fields = ["name", "display_name", "repo_id"]
    readonly_fields = ["name", "state", "detail", "fetch_fraction", "is_default", "size"]
    readonly_fields += ["path", "source", "repo_id", "created_at"]
    actions = ["load", "unload", "reload", "pin", "unpin", "set_default"]
    actions += ["clear_memory", "clear_disk", "fetch_again"]
    actions_detail = ["load_this", "unload_this", "set_default_this"]
    conditional_fields = {
        "stall_ms": "pace == 'custom'",
        "decode_share": "pace == 'custom'",
    }
    fieldsets = [
        (None, {"fields": ["name", "display_name", ("is_enabled", "is_default"), "state"]}),
        ("Weights", {"fields": ["path", ("source", "repo_id"), "size", "detail"]}),
        (
            "What it can do",
            {"fields": ["kind", "context_limit_tokens", ("supports_thinking", "supports_tools")]},
        ),
        (
            "Sampling, where a request says nothing",
            {
                "fields": [
                    ("default_temperature", "default_top_p"),
                    ("default_top_k", "default_min_p"),
                    "default_max_tokens",
                ]
            },
        ),
        (
            "Scheduling",
            {
                "fields": [
                    ("max_rows", "max_queue"),
                    ("is_pinned", "idle_unload_seconds"),
                    "pace",
                    ("stall_ms", "decode_share"),
                ]
            },
        ),
        (
            "Prefix cache",
            {
                "fields": [
                    "cache_sharing",
                    ("cache_memory_share", "is_cached_on_disk"),
                    "boundary_interval_tokens",
                ]
            },
        ),
    ]

    @display(description="State", label={"ready": "success", "failed": "danger"})
    def state_label(self, model: HostedModel) -> str:
        if model.state == HostedModel.State.FETCHING:
            return f"fetching {model.fetch_fraction:.0%}"
        return model.state

    @admin.display(description="Size", ordering="weight_bytes")
    def size(self, model: HostedModel) -> str:
        return filesizeformat(model.weight_bytes)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """A folder or a Hugging Face id is all that is asked; the rest is read from the model."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = NewModelForm(request.POST or None)
        if request.method == "POST" and form.is_valid() and (model := form.add_model()):
            self.log_addition(request, model, "Added.")
            record_of(request, "model.add", target=model)
            self.message_user(request, f"{model.name} is registered.", messages.SUCCESS)
            return redirect("admin:hosting_hostedmodel_change", model.pk)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Add a model",
            "form": form,
        }
        return TemplateResponse(request, "admin/hosting/add_model.html", context)

    def save_model(self, request: HttpRequest, obj: HostedModel, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        transaction.on_commit(hosted_models.publish_models)

    def delete_model(self, request: HttpRequest, obj: HostedModel) -> None:
        record_of(request, "model.delete", target=obj)
        hosted_models.remove_model(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for model in queryset:
            self.delete_model(request, model)

    @admin.action(description="Load", permissions=["change"])
    def load(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "load",
            question="Load these models?",
            consequence="An idle model makes room where the memory is short.",
            change=lambda model: get_client().load_model(model.name),
        )

    @admin.action(description="Unload", permissions=["change"])
    def unload(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "unload",
            question="Unload these models?",
            consequence="Running answers end first. The next request loads the model again.",
            change=lambda model: get_client().unload_model(model.name),
        )

    @admin.action(description="Reload", permissions=["change"])
    def reload(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "reload",
            question="Reload these models?",
            consequence="Running answers end first. Others wait until the weights are read again.",
            change=_reload,
        )

    @admin.action(description="Pin", permissions=["change"])
    def pin(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "pin",
            question="Pin these models?",
            consequence="They are loaded now, and no other model takes their place.",
            change=lambda model: hosted_models.set_pinned(model, is_pinned=True),
        )

    @admin.action(description="Unpin", permissions=["change"])
    def unpin(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "unpin",
            question="Unpin these models?",
            consequence="They stay loaded until they have been idle too long or are in the way.",
            change=lambda model: hosted_models.set_pinned(model, is_pinned=False),
        )

    @admin.action(description="Make default", permissions=["change"])
    def set_default(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        if len(queryset) != 1:
            self.message_user(request, "There is one default: choose one model.", messages.ERROR)
            return None
        return self._ask_and_do(
            request,
            queryset,
            "set_default",
            question="Make this the default model?",
            consequence="New conversations use it unless their owner chooses another.",
            change=hosted_models.make_default,
        )

    @admin.action(description="Clear prefixes in memory", permissions=["change"])
    def clear_memory(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "clear_memory",
            question="Forget what memory keeps of these models' prompts?",
            consequence="What is on disk comes back from there; the rest is computed again.",
            change=lambda model: get_client().clear_cache(model.name, wire.CacheTier.MEMORY),
        )

    @admin.action(description="Clear prefixes on disk", permissions=["change"])
    def clear_disk(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "clear_disk",
            question="Delete what the disk keeps of these models' prompts?",
            consequence="After a restart each conversation is computed from its beginning once.",
            change=lambda model: get_client().clear_cache(model.name, wire.CacheTier.DISK),
        )

    @admin.action(description="Fetch again", permissions=["change"])
    def fetch_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset.filter(source=HostedModel.Source.HUGGING_FACE),
            "fetch_again",
            question="Fetch these models again?",
            consequence="They come from Hugging Face and cannot be used until they are here.",
            change=hosted_models.fetch_again,
        )

    @action(description="Load", url_path="load", permissions=["change"], icon="play_arrow")
    def load_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.load(request, self.get_queryset(request).filter(pk=object_id))

    @action(description="Unload", url_path="unload", permissions=["change"], icon="stop")
    def unload_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.unload(request, self.get_queryset(request).filter(pk=object_id))

    @action(description="Make default", url_path="default", permissions=["change"], icon="star")
    def set_default_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.set_default(request, self.get_queryset(request).filter(pk=object_id))

    def _ask_and_do(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        name: str,
        *,
        question: str,
        consequence: str,
        change: Change,
    ) -> HttpResponse | None:
        """Ask, then change each model, leave a log entry, and say how it went."""
        description = getattr(self, name).short_description
        page = ask_first(
            self,
            request,
            queryset,
            action=name,
            question=question,
            consequence=consequence,
            button=description,
        )
        if page is not None:
            return page
        try:
            for model in queryset:
                change(model)
                self.log_change(request, model, f"{description}.")
                record_of(request, f"model.{name}", target=model)
        except EngineUnavailable:
            self.message_user(request, "Redis is away: nothing was changed.", messages.ERROR)
        else:
            self.message_user(request, f"{description}: asked for.", messages.SUCCESS)
        return None


def _reload(model: HostedModel) -> None:
    client = get_client()
    client.unload_model(model.name)
    client.load_model(model.name)

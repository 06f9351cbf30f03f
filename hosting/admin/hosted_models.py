"""The registry of models in the administration: the list, adding, and the settings of each."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from accounts.audit import record_of
from hosting.actions import hosted_models
from hosting.actions.counting import conversation_fault
from hosting.actions.heartbeats import heartbeats
from hosting.actions.model_states import seen_models, states_in_engines
from hosting.admin.memory_panel import memory_panel
from hosting.admin.model_actions import ModelActions
from hosting.admin.model_form import COUNTS_AT_LOAD, ModelSettingsForm
from hosting.admin.model_list import ModelColumns
from hosting.admin.new_model_form import NewModelForm
from hosting.models import HostedModel

_PANEL = "admin/hosting/memory_panel.html"
_ASKED = "may_wait"  # of the form, not of the model


@admin.register(HostedModel)
class HostedModelAdmin(ModelColumns, ModelActions):
    audit_noun = "model"
    form = ModelSettingsForm
    compressed_fields = False  # labels above: several fields share a line beside the estimate
    change_form_template = "admin/hosting/model_settings.html"
    list_filter = ["kind", "state", "source", "is_enabled"]
    search_fields = ["name", "display_name", "repo_id"]
    readonly_fields = ["name", "registered_as", "detail", "fetch_fraction", "is_default", "size"]
    readonly_fields += ["path", "source", "repo_id", "created_at", "drafted"]
    conditional_fields = {
        "stall_ms": "pace == 'custom'",
        "decode_share": "pace == 'custom'",
    }
    fieldsets = [
        (None, {"fields": ["name", "display_name", ("is_enabled", "is_default")]}),
        (
            "Weights",
            {"fields": ["path", ("source", "repo_id"), ("registered_as", "size"), "detail"]},
        ),
        (
            "What it can do",
            {
                "fields": [
                    *("kind", "context_limit_tokens"),
                    ("supports_thinking", "supports_tools", "supports_images"),
                ]
            },
        ),
        ("Who may use it", {"fields": ["allowed_groups"]}),
        (
            "Memory",
            {
                "fields": [
                    ("max_rows", "max_queue"),
                    "may_wait",
                    ("memory_ceiling_gb", "memory_share"),
                    ("slice_tokens", "kv_bits"),
                    "buffers",
                    ("is_pinned", "idle_unload_seconds"),
                ]
            },
        ),
        ("Drafts", {"fields": [("draft_tokens", "draft_model"), "drafted"]}),
        ("Pace", {"fields": ["pace", ("stall_ms", "decode_share")]}),
        (
            "Where a request says nothing",
            {
                "fields": [
                    ("default_temperature", "default_max_tokens"),
                    ("default_top_p", "default_top_k", "default_min_p"),
                    (
                        "default_presence_penalty",
                        "default_frequency_penalty",
                        "default_repetition_penalty",
                    ),
                    "template_options",
                ]
            },
        ),
        (
            "Prefix cache",
            {
                "fields": [
                    "cache_sharing",
                    ("cache_memory_share", "cache_disk_share"),
                    ("is_cached_on_disk", "boundary_interval_tokens"),
                ]
            },
        ),
    ]

    @admin.display(description="State")
    def registered_as(self, model: HostedModel) -> str:
        told = model.get_state_display()
        is_fetching = model.state == HostedModel.State.FETCHING
        return f"{told} {model.fetch_fraction:.0%}" if is_fetching else told

    @admin.display(description="Drafted since it was loaded")
    def drafted(self, model: HostedModel) -> str:
        seen = seen_models(heartbeats()).get(model.name)
        told = seen.by_engine.values() if seen else ()
        if not (drafted := sum(one.drafted_tokens for one in told)):
            return "nothing"
        share = sum(one.accepted_tokens for one in told) / drafted
        return f"{drafted:,} tokens, of which {share:.0%} were accepted"

    def get_urls(self) -> list[URLPattern]:
        estimate = path(
            "<int:model_id>/estimate/",
            self.admin_site.admin_view(require_POST(self.estimate)),
            name="hosting_hostedmodel_estimate",
        )
        return [estimate, *super().get_urls()]

    def get_fieldsets(self, request: HttpRequest, obj: HostedModel | None = None) -> Any:
        """Who may only look is asked nothing."""
        fieldsets = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**options, "fields": [one for one in options["fields"] if one != _ASKED]})
            for title, options in fieldsets
        ]

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

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        if not form.is_bound:
            form.look_at_model()
            self._tell_faults(request, form.instance)
        context["panel"] = memory_panel(form)
        return super().render_change_form(request, context, **kwargs)

    def _tell_faults(self, request: HttpRequest, model: HostedModel) -> None:
        """Of what only intake runs: the model's chat template."""
        if model.kind != HostedModel.Kind.GENERATE or not (fault := conversation_fault(model)):
            return
        remedy = "Mend the template in its folder, or fetch the model again."
        self.message_user(
            request, f"Nobody can chat with {model.name}. {fault} {remedy}", messages.WARNING
        )

    def estimate(self, request: HttpRequest, model_id: int) -> JsonResponse:
        """What the settings as they are typed would take, and what is wrong with them."""
        model = get_object_or_404(HostedModel, pk=model_id)
        if not self.has_change_permission(request, model):
            raise PermissionDenied
        form = self.get_form(request, model)(request.POST, instance=model)
        form.is_valid()
        return JsonResponse(
            {
                "panel": render_to_string(_PANEL, {"panel": memory_panel(form)}),
                "errors": {name: messages_[0] for name, messages_ in form.errors.items()},
                "may_wait": form.trouble is not None and form.trouble.may_wait,
            }
        )

    def save_model(self, request: HttpRequest, obj: HostedModel, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        hosted_models.publish_on_commit()
        is_loaded = states_in_engines().get(obj.name) == "loaded"
        if is_loaded and COUNTS_AT_LOAD & set(form.changed_data):
            self.message_user(request, _reload_question(obj), messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: HostedModel) -> None:
        record_of(request, "model.delete", target=obj)
        hosted_models.remove_model(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for model in queryset:
            self.delete_model(request, model)


def _reload_question(model: HostedModel) -> str:
    return format_html(
        "A part of this counts only when the model is loaded again. "
        '<a class="hearth-link" href="{}">Reload now?</a>',
        reverse("admin:hosting_hostedmodel_reload_this", args=[model.pk]),
    )

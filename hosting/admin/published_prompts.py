"""Published prompts in the administration: add, publish again, withdraw."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.decorators import display

from accounts.admin.grouped import grouped
from accounts.audit import record_of
from hosting.actions.publications import publish, unpublish
from hosting.admin.storable_json import StorableJsonField
from hosting.models import PublishedPrompt

_STATE_COLOURS = {
    PublishedPrompt.State.ASKED.label: "info",
    PublishedPrompt.State.PUBLISHED.label: "success",
    PublishedPrompt.State.FAILED.label: "danger",
}


class PublishedPromptForm(forms.ModelForm):
    """The prompt is taken to the letter; only a browser's line ends are not what was typed."""

    class Meta:
        field_classes = {"tools": StorableJsonField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "system_prompt" in self.fields:  # not where it can only be read
            self.fields["system_prompt"].strip = False

    def clean_system_prompt(self) -> str:
        text: str = self.cleaned_data["system_prompt"]
        return text.replace("\r\n", "\n")

    def clean_tools(self) -> list[dict[str, Any]]:
        tools = self.cleaned_data["tools"] or []
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise forms.ValidationError("A list of objects is expected.")
        return tools


@admin.register(PublishedPrompt)
class PublishedPromptAdmin(ModelAdmin):
    """What is published stays as it is: clients' requests must match it to the letter."""

    form = PublishedPromptForm
    list_display = ["name", "model", "state_label", grouped("prompt_tokens"), "asked_at"]
    list_filter = ["state", "model"]
    list_select_related = ["model"]
    search_fields = ["name"]
    empty_help = "A long system prompt that many send is read once, for all of them."
    actions = ["publish_again"]
    _written = ["name", "model", "system_prompt", "tools"]
    _told = ["state_label", "detail", grouped("prompt_tokens"), "asked_at"]

    def get_fields(self, request: HttpRequest, obj: PublishedPrompt | None = None) -> list[Any]:
        return [*self._written, *(self._told if obj else [])]

    def get_readonly_fields(
        self, request: HttpRequest, obj: PublishedPrompt | None = None
    ) -> list[Any]:
        return [*self._written, *self._told] if obj else []

    @display(description="State", label=_STATE_COLOURS)
    def state_label(self, prompt: PublishedPrompt) -> str:
        return prompt.get_state_display()

    def save_model(
        self, request: HttpRequest, obj: PublishedPrompt, form: Any, change: bool
    ) -> None:
        publish(obj)
        record_of(request, "prompt.publish", target=obj, after={"model": str(obj.model)})

    def delete_model(self, request: HttpRequest, obj: PublishedPrompt) -> None:
        record_of(request, "prompt.withdraw", target=obj, before={"model": str(obj.model)})
        unpublish(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PublishedPrompt]) -> None:
        for prompt in queryset:
            self.delete_model(request, prompt)

    @admin.action(description="Publish again", permissions=["change"])
    def publish_again(self, request: HttpRequest, queryset: QuerySet[PublishedPrompt]) -> None:
        for prompt in queryset:
            publish(prompt)
            self.log_change(request, prompt, "Published again.")
            record_of(request, "prompt.publish", target=prompt, after={"model": str(prompt.model)})
        self.message_user(request, f"Asked for: {len(queryset)}.", messages.SUCCESS)

"""The settings of a model, checked together: each for itself, against what the model can, and
against the memory that there is."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import format_html
from unfold.widgets import UnfoldBooleanSwitchWidget

from accounts.admin.fresh_form import FreshForm
from accounts.admin.group_boxes import GroupBoxes
from engine.sizing.layers import FullLayers
from engine.sizing.plan import MemoryPlan
from engine.sizing.shape import Shape, UnreadableConfig
from hosting.actions.draft_models import why_not
from hosting.actions.heartbeats import heartbeats
from hosting.actions.model_memory import context_of, place_of, plan_of, shape_of
from hosting.admin.memory_words import Trouble, trouble_of
from hosting.admin.storable_json import StorableJsonField
from hosting.models import HostedModel

# Everything else counts from the engine's next turn on, or from the next request.
COUNTS_AT_LOAD = frozenset({"kind", "kv_bits", "draft_model"})
# What the memory is estimated from: it is checked when one of these has changed.
SIZES = frozenset(
    {"kind", "context_limit_tokens", "max_rows", "memory_ceiling_gb", "memory_share"}
    | {"slice_tokens", "kv_bits"}
)
_QUANTISED_GROUP = 32  # elements of a head that share a scale


class ModelSettingsForm(FreshForm):
    """Once it was checked: `plan` and `trouble` of the memory, or why the config cannot be read."""

    may_wait = forms.BooleanField(
        label="Save all the same",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Requests that do not fit beside others wait their turn.",
    )

    class Meta:
        model = HostedModel
        fields = "__all__"
        help_texts = {
            "idle_unload_seconds": "So long without a request, and it is unloaded. Empty: it stays "
            "while there is room.",
        }
        widgets = {"allowed_groups": GroupBoxes}
        field_classes = {"template_options": StorableJsonField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan: MemoryPlan | None = None
        self.trouble: Trouble | None = None
        self.config_error = ""
        if "kv_bits" in self.fields:  # not where it can only be read
            self.fields["kv_bits"].choices = [("", "as computed"), *HostedModel.KvBits.choices]
        if "draft_model" in self.fields:
            self.fields["draft_model"].empty_label = "none"
        for name in self.fields.keys() & COUNTS_AT_LOAD:
            self.fields[name].help_text = format_html(
                '{} <em class="hearth-when">Counts at the next load.</em>',
                self.fields[name].help_text,
            )

    def clean_template_options(self) -> dict[str, Any]:
        return self.cleaned_data["template_options"] or {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("is_pinned") and cleaned.get("idle_unload_seconds") is not None:
            self.add_error("idle_unload_seconds", "A pinned model is never unloaded.")
        draft = cleaned.get("draft_model") if "draft_model" in self.changed_data else None
        if draft is not None and (reason := why_not(self.instance, draft)):
            self.add_error("draft_model", reason)
        return cleaned

    def _post_clean(self) -> None:
        """Only now the instance has the new values."""
        super()._post_clean()  # type: ignore[misc]
        if not self.errors.keys() & SIZES:
            self.look_at_model()
        trouble, has_changed = self.trouble, bool(SIZES & set(self.changed_data))
        if trouble and has_changed and not (self.cleaned_data.get("may_wait") and trouble.may_wait):
            self._refuse(trouble.field, trouble.detail)

    def look_at_model(self) -> None:
        """What the instance would take, as it is now."""
        model = self.instance
        try:
            shape = shape_of(model)
            self.plan = plan_of(model, place_of(model, heartbeats()))
        except UnreadableConfig as error:
            self.config_error = str(error)
            return
        has_ceiling = model.memory_ceiling_gb is not None or model.memory_share is not None
        self.trouble = trouble_of(self.plan, has_ceiling=has_ceiling)
        if self.is_bound:
            self._check_against_model(shape)

    def _check_against_model(self, shape: Shape) -> None:
        model = self.instance
        most = shape.context_limit_tokens
        if most and (model.context_limit_tokens or 0) > most:
            self._refuse("context_limit_tokens", f"The model itself takes at most {most:,} tokens.")
        if (model.default_max_tokens or 0) >= context_of(model, shape):
            self._refuse("default_max_tokens", "An answer must be shorter than the context limit.")
        if (model.default_top_k or 0) > shape.vocab_size:
            self._refuse("default_top_k", f"The vocabulary has {shape.vocab_size:,} tokens.")
        if model.kv_bits and not _may_quantise(model, shape):
            self._refuse("kv_bits", "The layers of this model cannot be kept quantised.")

    def _refuse(self, name: str, message: str) -> None:
        """At its field, or above the form where that is not shown."""
        self.add_error(name if name in self.fields else None, message)


def _may_quantise(model: HostedModel, shape: Shape) -> bool:
    has_full_layers = any(isinstance(one, FullLayers) for one in shape.layers)
    is_whole = shape.head_size % _QUANTISED_GROUP == 0
    return model.kind == HostedModel.Kind.GENERATE and has_full_layers and is_whole

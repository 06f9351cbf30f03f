"""What stands beside the settings of a model: its memory in words and as a bar."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS

from hosting.admin.load_failures import explanation
from hosting.admin.memory_words import parts_of, sentence_of
from hosting.admin.model_form import COUNTS_AT_LOAD, SIZES, ModelSettingsForm
from hosting.models import HostedModel


def memory_panel(form: ModelSettingsForm) -> dict[str, Any]:
    """Of a form that has looked at its model."""
    changed = set(form.changed_data) if form.is_bound else set()
    return {
        "is_away": form.instance.state != HostedModel.State.READY,
        "config_error": explanation(form.config_error) if form.config_error else "",
        "has_bad_sizes": bool(form.is_bound and form.plan is None and form.errors.keys() & SIZES),
        "sentence": sentence_of(form.plan) if form.plan else "",
        "parts": parts_of(form.plan) if form.plan else [],
        "has_limit": form.plan is not None and form.plan.ceiling_bytes is not None,
        "trouble": form.trouble,
        "errors": list(form.non_field_errors()) if form.is_bound else [],
        "num_errors": len(form.errors.keys() - {NON_FIELD_ERRORS}) if form.is_bound else 0,
        "at_load": [_label(form, name) for name in sorted(changed & COUNTS_AT_LOAD)],
    }


def _label(form: ModelSettingsForm, name: str) -> str:
    return str(form.fields[name].label)

"""Forms of the administration that undo nobody's change: they carry, hidden, what they were opened
with, in short, and are refused where it has changed since.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django import forms
from django.http import HttpRequest

SEEN = "seen"
CHANGED = (
    "These settings have changed since this page was opened. "
    "Open it again, and make your change there."
)


class _Seen(forms.CharField):
    widget = forms.HiddenInput

    def has_changed(self, initial: Any, data: Any) -> bool:
        """It is asked of the form, not of what it changes."""
        return False


class FreshForm(forms.ModelForm):  # type: ignore[type-arg]
    seen = _Seen(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._standing = _short({name: self.initial.get(name) for name in self.fields})
        self.fields[SEEN].initial = self._standing

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get(SEEN, "") not in ("", self._standing):
            self.add_error(None, CHANGED)
        return cleaned


class FreshFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """Tells for all what is wrong with no field that is shown: the pages show it there only."""

    def full_clean(self) -> None:
        super().full_clean()
        for errors in self.errors:
            self._non_form_errors.extend(errors.get(forms.forms.NON_FIELD_ERRORS, []))
            if errors.keys() & {"id", self.fk.name}:  # no longer there, or already
                self._non_form_errors.append(CHANGED)


class FreshFormMixin:
    """For a page or an inline whose form is one of these. Who may only look is asked nothing."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)  # type: ignore[misc]
        if obj is None or not self.has_change_permission(request, obj):  # type: ignore[attr-defined]
            return fieldsets
        (title, options), *others = fieldsets
        return [(title, {**options, "fields": [*options["fields"], SEEN]}), *others]


def _short(stored: dict[str, Any]) -> str:
    plain = {name: _plain(value) for name, value in stored.items()}
    text = json.dumps(plain, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Rows that belong to it have no order of their own."""
    return sorted(map(str, value)) if isinstance(value, list) else value

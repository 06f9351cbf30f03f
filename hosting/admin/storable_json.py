"""A form's field for JSON: what a database or the wire cannot take is refused at it."""

from __future__ import annotations

import math
from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput

_MOST_LEVELS = 100
_MOST_NUMBER = 2**63
_REFUSED = "This cannot be stored: a number without end, half a character, or too many levels."


class StorableJsonField(forms.JSONField):
    def to_python(self, value: Any) -> Any:
        try:
            read = super().to_python(value)
            _check_storable(read, levels=_MOST_LEVELS)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(_REFUSED) from error
        return read

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was refused is shown as it was typed."""
        try:
            self.to_python(data)
        except forms.ValidationError:
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)


def _check_storable(value: Any, *, levels: int) -> None:
    """Raises ValueError."""
    if levels == 0:
        raise ValueError("too many levels")
    match value:
        case dict():
            for inner in (*value, *value.values()):
                _check_storable(inner, levels=levels - 1)
        case list():
            for inner in value:
                _check_storable(inner, levels=levels - 1)
        case str():
            if b"\0" in value.encode():
                raise ValueError("a zero character")
        case int() | float():
            if not math.isfinite(value) or abs(value) >= _MOST_NUMBER:
                raise ValueError("a number without end")

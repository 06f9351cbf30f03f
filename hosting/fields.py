"""Fields that take a JSON type for what it is: "1" is no number, 1 is no text, NaN is nothing."""

from __future__ import annotations

import math
from typing import Any

from rest_framework import serializers


class Text(serializers.CharField):
    default_error_messages = {
        "invalid": "This must be text.",
        "max_length": "This is too long: at most {max_length:,} characters can be sent.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data

    def run_validation(self, data: Any = serializers.empty) -> Any:
        # CharField strips before it asks whether nothing is left
        if data == "" and not self.allow_blank:
            self.fail("blank")
        return serializers.Field.run_validation(self, data)


class Number(serializers.FloatField):
    default_error_messages = {"invalid": "This must be a number."}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            self.fail("invalid")
        try:
            number = float(data)
        except OverflowError:
            self.fail("invalid")
        if not math.isfinite(number):
            self.fail("invalid")
        return number


class Whole(serializers.IntegerField):
    default_error_messages = {"invalid": "This must be a whole number."}

    def to_internal_value(self, data: Any) -> int:
        is_whole = isinstance(data, float) and data.is_integer()  # 1e999 is infinity
        if isinstance(data, bool) or not (isinstance(data, int) or is_whole):
            self.fail("invalid")
        return int(data)


class Flag(serializers.BooleanField):
    default_error_messages = {"invalid": "This must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


def first_error(detail: Any, path: str = "") -> tuple[str, str]:
    """Path and sentence of the first error that a serializer found: ("messages[0].role", "...")."""
    if isinstance(detail, dict):
        key, inner = next(iter(detail.items()))
        return first_error(inner, _joined(path, key))
    if isinstance(detail, list):
        index = next((place for place, item in enumerate(detail) if item), 0)
        inner = detail[index]
        is_nested = isinstance(inner, (dict, list))
        return first_error(inner, f"{path}[{index}]" if is_nested else path)
    return path, str(detail)


def _joined(path: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key == "non_field_errors":
        return path
    return f"{path}.{key}" if path else str(key)

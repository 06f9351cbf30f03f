"""A whole number in lists and on pages that are only read, as all texts write it: 12,345."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin


def grouped(name: str) -> Callable[[Any], str | None]:
    """The column of that field, with its name; empty where there is no number."""

    @admin.display(description=name.replace("_", " "), ordering=name)
    def column(row: Any) -> str | None:
        number = getattr(row, name)
        return None if number is None else f"{number:,}"

    column.__name__ = name
    return column

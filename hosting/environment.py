"""Reads settings from the environment. What is empty counts as not set."""

from __future__ import annotations

import contextlib
import os

from django.core.exceptions import ImproperlyConfigured


def number(variable: str, default: int, *, least: int, most: int) -> int:
    """Raises ImproperlyConfigured."""
    told = os.environ.get(variable, "").strip()
    if not told:
        return default
    with contextlib.suppress(ValueError):
        if least <= int(told) <= most:
            return int(told)
    raise ImproperlyConfigured(f"{variable} is a number from {least} to {most}, not {told!r}.")


def names(variable: str) -> list[str]:
    """A list with commas; blanks around its names are nobody's intention."""
    told = (name.strip() for name in os.environ.get(variable, "").split(","))
    return [name for name in told if name]


def pairs(variable: str) -> dict[str, str]:
    """`name=value` pairs with commas. Raises ImproperlyConfigured."""
    found = [name.partition("=") for name in names(variable)]
    if wrong := next((name for name, equals, _ in found if not equals), None):
        raise ImproperlyConfigured(f"{variable} is name=value pairs with commas, not {wrong!r}.")
    return {name.strip(): value.strip() for name, _, value in found}

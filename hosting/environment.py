"""Reads settings from the environment. What is empty counts as not set.

What is wrong is told in a sentence that names the variable (ImproperlyConfigured).
"""

from __future__ import annotations

import contextlib
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import environ as django_environ
from django.core.exceptions import ImproperlyConfigured

_FLAGS = {"1": True, "true": True, "yes": True, "on": True}
_FLAGS |= {"0": False, "false": False, "no": False, "off": False}
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@*\s]+")
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)
_DATABASES = ("postgres://", "postgresql://", "sqlite://")


def text(variable: str, default: str = "") -> str:
    return os.environ.get(variable) or default


def choice(variable: str, default: str, *others: str) -> str:
    choices = (default, *others)
    if (told := text(variable, default).strip()) not in choices:
        raise ImproperlyConfigured(f"{variable} is one of {', '.join(choices)}, not {told!r}.")
    return told


def flag(variable: str) -> bool:
    told = text(variable, "0").strip().lower()
    if told not in _FLAGS:
        raise ImproperlyConfigured(f"{variable} is 1 or 0, not {told!r}.")
    return _FLAGS[told]


def number(
    variable: str, default: int, *, least: int, most: int, environ: Mapping[str, str] = os.environ
) -> int:
    told = environ.get(variable, "").strip()
    if not told:
        return default
    with contextlib.suppress(ValueError):
        if least <= int(told) <= most:
            return int(told)
    raise ImproperlyConfigured(f"{variable} is a number from {least} to {most}, not {told!r}.")


def seconds(variable: str, default: float, *, most: float) -> float:
    told = text(variable, str(default)).strip()
    with contextlib.suppress(ValueError):
        if 0 <= float(told) <= most:
            return float(told)
    raise ImproperlyConfigured(f"{variable} is a number from 0 to {most:g}, not {told!r}.")


def names(variable: str) -> list[str]:
    """A list with commas; blanks around its names are nobody's intention."""
    told = (name.strip() for name in text(variable).split(","))
    return [name for name in told if name]


def hosts(variable: str) -> list[str]:
    """A list with commas, as Django compares them: a port would fit nothing."""
    told = names(variable)
    if wrong := next((name for name in told if not _HOST.fullmatch(name)), None):
        raise ImproperlyConfigured(
            f"{variable} is names like hearth.example.org or 192.168.1.20 with commas, without "
            f"https:// and port, not {wrong!r}."
        )
    return told


def origins(variable: str) -> list[str]:
    """A list with commas, as browsers write them; or * alone."""
    told = [name.lower() for name in names(variable)]
    wrong = next((name for name in told if not _ORIGIN.fullmatch(name)), None)
    if wrong is not None and told != ["*"]:
        raise ImproperlyConfigured(
            f"{variable} is origins like https://app.example.org with commas, or *, not {wrong!r}."
        )
    return told


def pairs(variable: str) -> dict[str, str]:
    """`name=value` pairs with commas."""
    found = [name.partition("=") for name in names(variable)]
    if wrong := next((name for name, equals, _ in found if not equals), None):
        raise ImproperlyConfigured(f"{variable} is name=value pairs with commas, not {wrong!r}.")
    return {name.strip(): value.strip() for name, _, value in found}


def redis_url(variable: str, default: str) -> str:
    """The refusal does not repeat the URL, which may have a password."""
    told = text(variable, default)
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(told)
        has_number = parts.port != 0 and re.fullmatch("/?[0-9]*", parts.path)
        if parts.scheme == "unix" or (parts.scheme in ("redis", "rediss") and has_number):
            return told
    raise ImproperlyConfigured(
        f"{variable} is like redis://:password@host:6379/0, rediss:// with TLS; an @ or / in the "
        "password is written %40 or %2F."
    )


def database(variable: str, default: str) -> dict[str, Any]:
    """As Django has it. The refusal does not repeat the URL, which has a password."""
    url = text(variable, default)
    with contextlib.suppress(ValueError):
        if url.startswith(_DATABASES):
            return dict(django_environ.Env.db_url_config(url))
    raise ImproperlyConfigured(f"{variable} is like postgres://user:password@host/name.")

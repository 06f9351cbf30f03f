"""Bytes from outside as JSON, or a refusal. Only what every later step can handle gets through."""

from __future__ import annotations

import json
from typing import Any


class BadJson(Exception):
    """The body is not valid JSON."""


def read_json(body: bytes) -> Any:
    """Raises BadJson, also for NaN, for nesting beyond Python's, and for half characters."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadJson(f"The body is not valid JSON: {error}") from None
    if "\\ud" in text.lower():
        _check_characters(value)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_characters(value: Any) -> None:
    """Half a surrogate pair is no character: no database and no tokenizer takes it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("The body contains half a character (an unpaired surrogate).") from None

"""Bytes from outside as JSON, or a refusal. Only what every later step can handle gets through."""

from __future__ import annotations

import json
import math
from typing import Any

# Schemas that people write stay below 20; whatever walks a value later has room for this many
MAX_DEPTH = 200


class BadJson(Exception):
    """The body is not valid JSON. `field`: which of the outermost object is at fault, if known."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def read_json(body: bytes) -> Any:
    """Raises BadJson, also for NaN, numbers beyond any float, deep nesting, and half characters."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise _too_deep(None) from None
    except ValueError as error:
        raise BadJson(f"The body is not valid JSON: {error}") from None
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(value)
    if "\\ud" in text.lower():
        _check_characters(value)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _check_depth(value: Any) -> None:
    if not _is_deeper(value, MAX_DEPTH):
        return
    fields = value.items() if isinstance(value, dict) else ()
    raise _too_deep(next((name for name, one in fields if _is_deeper(one, MAX_DEPTH - 1)), None))


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether more than `depth` lists and objects lie in each other. Level by level, as a function
    that calls itself would meet Python's own limit."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


def _too_deep(field: str | None) -> BadJson:
    what = "The body" if field is None else f"The field {field[:40]!r}"
    return BadJson(f"{what} is nested more than {MAX_DEPTH} levels deep.", field=field)


def _check_characters(value: Any) -> None:
    """Half a surrogate pair is no character: no database and no tokenizer takes it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("The body contains half a character (an unpaired surrogate).") from None

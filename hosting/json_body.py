"""Bytes from outside as JSON, or a refusal. Only what every later step can handle gets through."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any

from engine import wire

# Lists, objects and texts. To make millions of them holds up everybody for seconds, and takes
# near thirty times the memory of the body
MAX_PARTS = 500_000
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]', re.DOTALL)


class BadJson(Exception):
    """The body is not valid JSON. `field`: which of the outermost object is at fault, if known."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def read_json(body: bytes) -> Any:
    """Raises BadJson, also for NaN, numbers beyond any float, deep nesting, half characters, and
    more than MAX_PARTS."""
    try:
        text = body.decode("utf-8")
        _check_parts(text)
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise _too_deep(None) from None
    except ValueError as error:
        raise BadJson(f"The body is not valid JSON: {error}") from None
    if text.count("{") + text.count("[") > wire.MAX_DEPTH:
        _check_depth(value)
    if "\\ud" in text.lower():
        _check_characters(value)
    return value


def _check_parts(text: str) -> None:
    """Before any is made. A long text may have as many brackets and quotes of its own."""
    if sum(map(text.count, '[{"')) <= MAX_PARTS:
        return
    some = itertools.islice(_PART.finditer(text), MAX_PARTS + 1)
    if sum(1 for _ in some) > MAX_PARTS:
        raise BadJson(f"The body has more than {MAX_PARTS:,} lists, objects and texts.")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _check_depth(value: Any) -> None:
    if not wire.is_deeper(value, wire.MAX_DEPTH):
        return
    fields = value.items() if isinstance(value, dict) else ()
    deep = (name for name, inner in fields if wire.is_deeper(inner, wire.MAX_DEPTH - 1))
    raise _too_deep(next(deep, None))


def _too_deep(field: str | None) -> BadJson:
    what = "The body" if field is None else f"The field {field[:40]!r}"
    return BadJson(f"{what} is nested more than {wire.MAX_DEPTH} levels deep.", field=field)


def _check_characters(value: Any) -> None:
    """Half a surrogate pair is no character: no database and no tokenizer takes it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("The body contains half a character (an unpaired surrogate).") from None

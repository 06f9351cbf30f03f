"""Where the arguments of a tool call begin, and where their JSON ends, while they come.

Only where arguments are written as a JSON object. It does not know pieces or channels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

import regex

# The arguments' object must look like one: what follows this is shown at once.
_OBJECT = r"(?=\{\s*[\"}])"
_ANY_NAME = r'(?:[^"\\]|\\.)+'
# What stands before a bare call: Llama's, Granite's and Phi's marks are no text where one follows.
_BEFORE = r"(?:[\s,;\[\]}]|<\|python_tag\|>|<\|/?tool_call\|>)*"
# A name and arguments; before them what may stand between two calls.
_JSON_HEADER = (
    _BEFORE + r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?'
    rf'"name"\s*:\s*"(?P<json_name>{_ANY_NAME})"\s*,'
    r'\s*"(?:arguments|parameters)"\s*:\s*' + _OBJECT
)
_MISTRAL_HEADER = (
    r"(?:\[TOOL_CALLS\]|\s)*(?P<name>[\w-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]\s*)?" + _OBJECT
)
_HEADERS = {
    "json_tools": _JSON_HEADER,
    "longcat": _JSON_HEADER,
    "mistral": rf"(?:{_JSON_HEADER}|{_MISTRAL_HEADER})",
    "kimi_k2": (
        r"(?:\s|<\|tool_call_end\|>)*<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[^<:]+):\d+"
        rf"\s*<\|tool_call_argument_begin\|>\s*{_OBJECT}"
    ),
    "kimi_k3": (
        r"(?:\s|<\|close\|>(?:json|call)<\|sep\|>)*<\|open\|>call(?:(?!<\|sep\|>).)*?"
        r'\btool="(?P<name>[^"]+)"(?:(?!<\|sep\|>).)*<\|sep\|>'
        rf"\s*<\|open\|>json(?:(?!<\|sep\|>).)*<\|sep\|>\s*{_OBJECT}"
    ),
}


class Span(Protocol):
    """The arguments of one call in text that comes in pieces."""

    call_end: str  # what stands behind the last argument

    @property
    def is_complete(self) -> bool: ...
    @property
    def is_within_argument(self) -> bool: ...
    def take(self, text: str) -> tuple[str, int]:
        """What can be shown, and how much of `text` belongs to the call."""
        ...

    def close(self) -> str:
        """What is still to be shown when the text ends here; it may be complete then."""
        ...


def header_of(parser_name: str | None) -> regex.Pattern[str] | None:
    """None for dialects whose arguments are no JSON object."""
    pattern = _HEADERS.get(parser_name or "")
    return regex.compile(pattern) if pattern is not None else None


def named_header(names: Iterable[str]) -> regex.Pattern[str]:
    """A bare {"name": ..., "arguments": {...}} of one of these tools."""
    each = "|".join(regex.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in names)
    return regex.compile(_JSON_HEADER.replace(_ANY_NAME, f"(?:{each})"))


def name_in(match: regex.Match[str]) -> str:
    groups = match.groupdict()
    if groups.get("json_name") is None:
        return str(groups["name"])
    return str(json.loads(f'"{groups["json_name"]}"', strict=False))


class JsonSpan:
    """A Span whose arguments are a JSON object, shown as it is. It does not validate."""

    call_end = "}"

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_text = False
        self._is_escaped = False
        self.is_complete = False

    @property
    def is_within_argument(self) -> bool:
        return self._is_in_text

    def take(self, text: str) -> tuple[str, int]:
        for number, character in enumerate(text):
            self._read(character)
            if self.is_complete:
                return text[: number + 1], number + 1
        return text, len(text)

    def close(self) -> str:
        return ""

    def _read(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_in_text:
            self._is_escaped = character == "\\"
            self._is_in_text = character != '"'
        elif character == '"':
            self._is_in_text = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self.is_complete = self._depth == 0

"""The tagged arguments of one call into a JSON object, while they come.

A text argument comes out piece by piece, any other when it is whole: what it says is for mlx-lm's
own parser to tell. The object is what that parser makes of the whole call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import regex

from engine.model.tagged_forms import Literal, Schemas, TaggedForm
from engine.model.tagged_values import (
    BareValue,
    Convert,
    QuotedText,
    TextValue,
    Value,
    WholeValue,
    held_back_of,
    text_value,
)

# The parsers are other people's code on a model's output: they raise what comes.
PARSER_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    RecursionError,
)
_ATTRIBUTE = regex.compile(r'(\w+)="([^"]*)"')
_PYTHON_QUOTES = ('"""', "'''", '"', "'")
_PLACEHOLDER = regex.compile("NAME|KEY|VALUE")

Parse = Callable[[str], Any]


class TaggedArguments:
    """A Span (call_headers.py)."""

    def __init__(self, form: TaggedForm, name: str, schemas: Schemas, parse: Parse):
        """`parse`: the dialect's parser, told of the tools."""
        self.call_end = form.last or form.value_end
        self._form = form
        self._name = name
        self._schemas = schemas
        self._parse = parse
        self._text = ""
        self._key: str | None = None  # whose value is coming
        self._is_typed_text = False
        self._value: Value | None = None
        self._num_arguments = 0
        self.is_complete = False
        self.is_broken = False

    @property
    def is_within_argument(self) -> bool:
        return self._key is not None and not self.is_broken

    def take(self, text: str) -> tuple[str, int]:
        """What can be shown; all of `text` is taken that belongs to the call."""
        self._text += text
        shown = []
        while not self.is_complete and not self.is_broken and (part := self._next()) is not None:
            shown.append(part)
        left = len(self._text) if self.is_complete else 0
        return "".join(shown), len(text) - left

    def close(self) -> str:
        """The section has ended; so has the call if it is between two arguments."""
        if self._key is not None or self.is_broken or self._text.strip():
            return ""
        return self._end()

    def _next(self) -> str | None:
        if self._value is not None:
            return self._more(self._value)
        if self._key is not None:
            return self._begin_value(self._key)
        end = self._form.call_end
        if end is not None and (match := end.match(self._text)) is not None:
            self._text = self._text[match.end() :]
            return self._end()
        match = self._form.key.match(self._text, partial=True)
        if match is not None and not match.partial:
            self._text = self._text[match.end() :]
            return self._begin_argument(match)
        may_end = end is not None and end.match(self._text, partial=True) is not None
        self.is_broken = match is None and not may_end and bool(self._text.strip())
        return None

    def _begin_argument(self, match: regex.Match[str]) -> str | None:
        key = self._read_key(match)
        if key is None:
            self.is_broken = True
            return None
        self._key = key
        start = "{" if self._num_arguments == 0 else ", "
        self._num_arguments += 1
        return f"{start}{json.dumps(key, ensure_ascii=False)}: "

    def _read_key(self, match: regex.Match[str]) -> str | None:
        if self._form.literal is not Literal.ATTRIBUTE:
            return unquoted(match["key"].strip())
        attributes = dict(_ATTRIBUTE.findall(match["attributes"]))
        self._is_typed_text = attributes.get("type", "string") == "string"
        key = attributes.get("key")
        return None if key is None else key.replace("&quot;", '"').replace("&amp;", "&")

    def _begin_value(self, key: str) -> str | None:
        match self._form.literal:
            case Literal.SCHEMA:
                self._value = self._by_schema(key)
            case Literal.ATTRIBUTE:
                self._value = text_value(self._form) if self._is_typed_text else self._whole(key)
            case Literal.MARKED:
                self._value = self._by_mark(key)
            case Literal.QUOTED:
                self._value = self._by_quote(key)
            case Literal.PYTHON:
                self._value = self._by_python_quote(key)
        return None if self._value is None else ""

    def _by_schema(self, key: str) -> Value | None:
        if not self._form.is_text(self._schemas, key):
            return self._whole(key)
        if aside := self._form.aside:
            begun = self._text.lstrip()
            if held_back_of(begun, aside):
                return None
            if begun.startswith(aside):
                return self._whole(key)
        return text_value(self._form)

    def _by_mark(self, key: str) -> Value | None:
        mark = self._form.value_end
        if held_back_of(self._text, mark):
            return None
        if not self._text.startswith(mark):
            return BareValue(self._converter(key), quotes=(mark,))
        self._text = self._text[len(mark) :]
        return TextValue(mark)

    def _by_quote(self, key: str) -> Value | None:
        if not self._text:
            return None
        is_text = self._text[0] == '"'
        return _UpTo(QuotedText('"'), self._form.value_end) if is_text else self._whole(key)

    def _by_python_quote(self, key: str) -> Value | None:
        self._text = self._text.lstrip()
        if not self._text or any(held_back_of(self._text, one) for one in _PYTHON_QUOTES):
            return None
        is_plain = self._text[0] in _PYTHON_QUOTES and not self._text.startswith(_PYTHON_QUOTES[:2])
        if is_plain:
            return QuotedText(self._text[0])
        return BareValue(self._converter(key), quotes=_PYTHON_QUOTES)

    def _whole(self, key: str) -> WholeValue:
        return WholeValue(self._form.value_end, self._converter(key))

    def _more(self, value: Value) -> str | None:
        shown, taken = value.read(self._text)
        self._text = self._text[taken:]
        if value.is_complete:
            self._value = self._key = None
        return shown if taken or value.is_complete else None

    def _end(self) -> str:
        self.is_complete = True
        return "}" if self._num_arguments else "{}"

    def _converter(self, key: str) -> Convert:
        def convert(raw: str) -> str:
            said = {"NAME": self._name, "KEY": key, "VALUE": raw}
            whole = _PLACEHOLDER.sub(lambda match: said[match[0]], self._form.whole)
            try:
                call = self._parse(whole)
                (one,) = call if isinstance(call, list) else [call]
                return json.dumps(one["arguments"][key], ensure_ascii=False)
            except PARSER_ERRORS:
                return json.dumps(raw.strip(), ensure_ascii=False)

        return convert


class _UpTo:
    """A value, and the marker behind it; what stands between them is dropped."""

    def __init__(self, value: Value, end: str):
        self._value = value
        self._end = end
        self.is_complete = False

    def read(self, text: str) -> tuple[str, int]:
        shown, taken = ("", 0) if self._value.is_complete else self._value.read(text)
        if not self._value.is_complete:
            return shown, taken
        stop = text.find(self._end, taken)
        if stop < 0:
            return shown, taken
        self.is_complete = True
        return shown, stop + len(self._end)


def unquoted(name: str) -> str:
    """Without the quotes around it."""
    name = name.strip()
    is_quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "\"'"
    return name[1:-1] if is_quoted else name

"""One argument's value while it comes: text as a JSON string piece by piece, all else when it is
whole. It does not know calls.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Protocol

import regex

from engine.model.tagged_forms import TaggedForm, Trim

_NULL = "null"
# A whole escape in a Python or JSON string
_ESCAPE = regex.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{3}|[0-7]{1,2}(?=[^0-7])"
    r"|[^xuUN0-7])",
    regex.DOTALL,
)
_LONGEST_ESCAPE = 64
_OPENING = {"{": "}", "[": "]", "(": ")"}
# The JSON of a value as it was written
Convert = Callable[[str], str]


class Value(Protocol):
    """`read` gives the JSON that can be shown and how much of the text it took; `is_complete`."""

    is_complete: bool

    def read(self, text: str) -> tuple[str, int]: ...


class TextValue:
    """Text up to an end marker, without the space around it that is not its own."""

    def __init__(self, end: str, *, trim: Trim = Trim.NOTHING, has_null: bool = False):
        self._end = end
        self._trim = trim
        self._has_null = has_null
        self._has_begun = False
        self.is_complete = False

    def read(self, text: str) -> tuple[str, int]:
        stop = text.find(self._end)
        if stop >= 0:
            self.is_complete = True
            return self._last(text[:stop]), stop + len(self._end)
        safe = len(text) - _held_back(text, self._end)
        return self._some(text[:safe])

    def _last(self, text: str) -> str:
        text = self._without_tail(self._without_lead(text))
        if not self._has_begun and self._has_null and text.lower() == _NULL:
            return _NULL
        return self._shown(text) + '"'

    def _some(self, text: str) -> tuple[str, int]:
        """What is certainly a part of it."""
        begun = self._without_lead(text)
        kept = self._without_tail(begun)
        may_be_null = self._has_null and not self._has_begun and _NULL.startswith(kept.lower())
        if not kept or may_be_null:
            return "", 0
        return self._shown(kept), len(text) - len(begun) + len(kept)

    def _without_lead(self, text: str) -> str:
        if self._has_begun:
            return text
        if self._trim is Trim.SPACE:
            return text.lstrip()
        return text.removeprefix("\n") if self._trim is Trim.ONE_BREAK else text

    def _without_tail(self, text: str) -> str:
        if self._trim is Trim.SPACE:
            return text.rstrip()
        return text.removesuffix("\n") if self._trim is Trim.ONE_BREAK else text

    def _shown(self, text: str) -> str:
        start = "" if self._has_begun else '"'
        self._has_begun = True
        return start + _inside_json(text)


class QuotedText:
    """A string literal with escapes, of JSON or Python; what stands behind it is not its own."""

    def __init__(self, quote: str):
        self._quote = quote
        self._has_begun = False
        self.is_complete = False

    def read(self, text: str) -> tuple[str, int]:
        shown, place = ([] if self._has_begun else ['"']), 0 if self._has_begun else 1
        self._has_begun = True
        while place < len(text) and not self.is_complete:
            if text[place] == self._quote:
                self.is_complete = True
                shown.append('"')
                place += 1
            elif text[place] != "\\":
                shown.append(_inside_json(text[place]))
                place += 1
            elif escape := _ESCAPE.match(text, place):
                shown.append(_inside_json(_unescaped(escape[0])))
                place = escape.end()
            elif len(text) - place < _LONGEST_ESCAPE:
                break
            else:
                shown.append(_inside_json(text[place]))
                place += 1
        return "".join(shown), place


class WholeValue:
    """Anything up to an end marker; what it says is found out by `convert` when it is whole."""

    def __init__(self, end: str, convert: Convert):
        self._end = end
        self._convert = convert
        self.is_complete = False

    def read(self, text: str) -> tuple[str, int]:
        stop = text.find(self._end)
        if stop < 0:
            return "", 0
        self.is_complete = True
        return self._convert(text[:stop]), stop + len(self._end)


class BareValue:
    """Anything up to a comma or a bracket that closes what stands around it, outside of strings.

    text [ known ... | place ...]   It only grows until it is complete, and is looked at once.
    """

    def __init__(self, convert: Convert, *, quotes: tuple[str, ...]):
        """`quotes`: the longest first."""
        self._convert = convert
        self._quotes = quotes
        self._place = 0
        self._expected: list[str] = []  # what closes the brackets that are open
        self._quote: str | None = None  # of the string that is open
        self.is_complete = False

    def read(self, text: str) -> tuple[str, int]:
        while self._place < len(text) and not self._may_be_half_a_quote(text):
            if self._is_end(text):
                self.is_complete = True
                return self._convert(text[: self._place]), self._place
            self._place += self._step(text)
        return "", 0

    def _may_be_half_a_quote(self, text: str) -> bool:
        if len(text) - self._place >= len(self._quotes[0]):
            return False
        rest = text[self._place :]
        quotes = self._quotes if self._quote is None else (self._quote,)
        return any(held_back_of(rest, one) for one in quotes)

    def _is_end(self, text: str) -> bool:
        return self._quote is None and not self._expected and text[self._place] in ",})]"

    def _step(self, text: str) -> int:
        """How much of the text it has looked at."""
        if self._quote is not None:
            return self._step_in_string(text, self._quote)
        self._quote = next((one for one in self._quotes if text.startswith(one, self._place)), None)
        if self._quote is not None:
            return len(self._quote)
        character = text[self._place]
        if character in _OPENING:
            self._expected.append(_OPENING[character])
        elif self._expected and character == self._expected[-1]:
            self._expected.pop()
        return 1

    def _step_in_string(self, text: str, quote: str) -> int:
        if text.startswith(quote, self._place):
            self._quote = None
            return len(quote)
        return 2 if text[self._place] == "\\" and len(quote) == 1 else 1


def text_value(form: TaggedForm) -> TextValue:
    return TextValue(form.value_end, trim=form.trim, has_null=form.has_null)


def held_back_of(text: str, mark: str) -> bool:
    """Whether more text could still show that it begins with `mark`."""
    return len(text) < len(mark) and mark.startswith(text)


def _held_back(text: str, end: str) -> int:
    """How much at the end of `text` may be the beginning of `end`."""
    longest = min(len(text), len(end) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(end[:n])), 0)


def _inside_json(text: str) -> str:
    """Half of a surrogate pair stays an escape."""
    is_half = any("\ud800" <= one <= "\udfff" for one in text)
    return json.dumps(text, ensure_ascii=is_half)[1:-1]


def _unescaped(escape: str) -> str:
    if escape == "\\/":
        return "/"
    try:
        made: str = ast.literal_eval(f"'{escape}'")
    except (SyntaxError, ValueError):
        return escape
    return made

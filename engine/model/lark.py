"""Builds a grammar in llguidance's Lark, with a model's control tokens where a text spells them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from engine.core.grammar_text import Part, joined, lark_part, literal, schema_part

ANYTHING = r"/(.|\n)*/"
_BEFORE_LINE = r"/((.|\n)*\n)?[ \t\r]*/"


class LarkBuilder:
    """`control`: spellings that are tokens of their own and cannot be written as text."""

    def __init__(self, control: Mapping[str, int]):
        self._control = control
        self._rules: list[str] = []
        self._parts: list[Part] = []
        self._numbers = itertools.count(1)
        longest_first = sorted(control, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def text(self, text: str) -> str:
        """Exactly this text, spelled in the model's tokens."""
        return " ".join(self._items(text)) or '""'

    def until(self, end: str) -> str:
        """Any text, up to and including `end`."""
        items = self._items(end)
        if not items:
            return ANYTHING
        if items[0].startswith("<["):
            return " ".join([ANYTHING, *items])
        name = self._name("until")
        self._rules.append(f"{name}[suffix={items[0]}]: {ANYTHING}")
        return " ".join([name, *items[1:]])

    def opening(self, start: str) -> str:
        """Any text, up to and including the first line's beginning that is `start`."""
        name = self._name("opening")
        self._rules.append(f"{name}[suffix={literal(start)}]: {_BEFORE_LINE}")
        return name

    def rule(self, body: str, *, kind: str) -> str:
        """A name for `body`."""
        name = self._name(kind)
        self._rules.append(f"{name}: {body}")
        return name

    def schema(self, schema: Any, *, is_strict: bool) -> str:
        """JSON that fits this schema."""
        return self.part(schema_part(schema, name=self._name("json"), is_strict=is_strict))

    def part(self, part: Part) -> str:
        """Another grammar inside this one."""
        self._parts.append(part)
        return f"@{part['name']}"

    def finish(self, start: str) -> str:
        lark = "\n".join([f"start: {start}", *self._rules])
        return joined([lark_part(lark, name="whole"), *self._parts])

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"

    def _items(self, text: str) -> list[str]:
        pieces = self._split.split(text) if self._control else [text]
        return [self._item(piece) for piece in pieces if piece]

    def _item(self, piece: str) -> str:
        token_id = self._control.get(piece)
        return literal(piece) if token_id is None else f"<[{token_id}]>"

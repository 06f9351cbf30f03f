"""Grammars of the wire as llguidance reads them. Pure text; nothing is compiled here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llguidance import LLMatcher, LLParserLimits
from llguidance.gbnf_to_lark import gbnf_to_lark

from engine import wire

# Between JSON's tokens: a space, or a new line and its indent. Some models would never stop.
_WHITESPACE = r"\x20|\x0A[\x20\x09]{0,32}"
# Regular expressions that look ahead, behind, at the ends of words, or back at a group
_BEYOND = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?<?[=!]|\\[1-9kbB])")
# At worst some 50 ms a step; what a thousand properties need that may be left out
MAX_ITEMS = 10_000
_MAX_REASON_CHARACTERS = 300
_DATA = ("const", "enum")  # of a schema: what is in there is no schema
_MEANINGLESS = {"propertyNames": ({}, {"type": "string"}), "uniqueItems": (False,)}
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")

Part = dict[str, Any]


class GrammarInvalid(Exception):
    """The grammar cannot be read."""


def grammar_part(grammar: wire.Grammar, *, name: str) -> Part:
    """One of llguidance's "grammars", to be referred to as @name. Raises GrammarInvalid."""
    match grammar.kind:
        case wire.GrammarKind.JSON_OBJECT:
            return schema_part({"type": "object"}, name=name)
        case wire.GrammarKind.JSON_SCHEMA:
            return schema_part(_json(grammar), name=name, is_strict=grammar.is_strict)
        case wire.GrammarKind.CHOICE:
            return lark_part(f"start: {_alternatives(_json(grammar))}", name=name)
        case wire.GrammarKind.REGEX:
            return _regex_part(grammar.source, name=name)
        case wire.GrammarKind.LARK:
            return lark_part(grammar.source, name=name)
        case wire.GrammarKind.GBNF:
            return lark_part(_from_gbnf(grammar.source), name=name)


def is_strict(tool: Mapping[str, Any]) -> bool:
    """Its calls follow its schema, also where nobody says that it must be called."""
    return bool(tool["function"].get("strict"))


def schema_part(schema: Any, *, name: str, is_strict: bool = True) -> Part:
    if not isinstance(schema, dict):
        schema = {"allOf": [schema]}
    schema = _with_each(_meaningful if is_strict else _enforceable, schema)
    options = {"whitespace_pattern": _WHITESPACE, "lenient": not is_strict}
    return {"name": name, "json_schema": {**schema, "x-guidance": options}}


def _with_each(change: Callable[[Part], Part], schema: Any) -> Any:
    """The schema with `change` made to it and to each schema in it."""
    if isinstance(schema, list):
        return [_with_each(change, one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {word: _with_each_in(change, word, one) for word, one in change(schema).items()}


def _with_each_in(change: Callable[[Part], Part], word: str, value: Any) -> Any:
    """What a schema says by this word. Names in it may be any, words of schemas too."""
    if word in _DATA:
        return value
    if word in _BY_NAME and isinstance(value, dict):
        return {name: _with_each(change, one) for name, one in value.items()}
    return _with_each(change, value)


def _meaningful(schema: Part) -> Part:
    """Without words that hold an answer to nothing, and that llguidance would not take."""
    return {word: one for word, one in schema.items() if one not in _MEANINGLESS.get(word, ())}


def _enforceable(schema: Part) -> Part:
    """Without patterns that no grammar can hold a text to."""
    return {
        word: one
        for word, one in _nameable(schema).items()
        if not (word == "pattern" and isinstance(one, str) and _BEYOND.search(one))
    }


def _nameable(schema: Part) -> Part:
    """Without such patterns of names. What they may have let in, nothing else forbids."""
    patterns = schema.get("patternProperties")
    if not isinstance(patterns, dict) or not any(map(_BEYOND.search, patterns)):
        return schema
    kept = {pattern: one for pattern, one in patterns.items() if not _BEYOND.search(pattern)}
    others = {name: one for name, one in schema.items() if name != "additionalProperties"}
    return others | {"patternProperties": kept}


def lark_part(lark: str, *, name: str) -> Part:
    return {"name": name, "lark_grammar": lark}


def joined(parts: list[Part]) -> str:
    """The whole grammar; the first part is where it starts."""
    return json.dumps({"grammars": parts})


def parser_limits() -> LLParserLimits:
    """The same where a grammar is tried and where rows follow it."""
    return LLParserLimits(step_max_items=MAX_ITEMS, max_items_in_row=MAX_ITEMS)


def literal(text: str) -> str:
    """A text as Lark writes it."""
    return json.dumps(text, ensure_ascii=False)


def readable_error(error: str) -> str:
    """What llguidance says to people, without its own state."""
    if error.startswith("panic"):
        return "it is too complex"
    return error.partition("<state>")[0].strip()[:_MAX_REASON_CHARACTERS]


def _json(grammar: wire.Grammar) -> Any:
    try:
        return json.loads(grammar.source)
    except (ValueError, RecursionError) as error:
        raise GrammarInvalid("it is no JSON") from error


def _alternatives(choices: Any) -> str:
    if not isinstance(choices, list) or not choices:
        raise GrammarInvalid("it must be a list of texts")
    if not all(isinstance(one, str) and one for one in choices):
        raise GrammarInvalid("each choice must be a text")
    return " | ".join(map(literal, choices))


def _regex_part(regex: str, *, name: str) -> Part:
    (part,) = json.loads(LLMatcher.grammar_from_regex(regex))["grammars"]
    return {**part, "name": name}


def _from_gbnf(source: str) -> str:
    try:
        lark: str = gbnf_to_lark(source)
    except Exception as error:  # the converter raises plain Exception
        raise GrammarInvalid(f"it is no GBNF: {error}") from error
    return lark

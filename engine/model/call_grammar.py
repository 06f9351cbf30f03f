"""Tool calls as a grammar: the tools' own schemas inside the model's dialect."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from engine.model.lark import LarkBuilder
from engine.model.tool_dialects import NUMBER, Dialect, Tagged, bare_start

MAX_CALLS = 16  # in one answer that must call
_ANY_NUMBER = "/[0-9]{1,3}/"
_KEY = "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/"

Schema = dict[str, Any]


def calls_rule(
    lark: LarkBuilder, dialect: Dialect, tools: Sequence[dict[str, Any]], *, is_parallel: bool
) -> str:
    """The name of a rule: one call of any of these tools, or several."""
    each = [_call(lark, dialect, tool["function"]) for tool in tools]
    call = lark.rule(" | ".join(each), kind="call")
    calls = call
    if is_parallel:
        more = lark.rule(f"{lark.text(dialect.between)} {call}", kind="more")
        calls = f"{call} {more}{{0,{MAX_CALLS - 1}}}"
    start, end = lark.text(dialect.section_start), lark.text(dialect.section_end)
    return lark.rule(f"{start} {calls} {end}", kind="calls")


def bare_calls(lark: LarkBuilder, dialect: Dialect, tools: Sequence[dict[str, Any]]) -> list[str]:
    """Names of rules: text and one call that begins without its first marker, if any do."""
    if not dialect.has_bare_calls:
        return []
    begun = dataclasses.replace(dialect, after_name=dialect.after_name.removeprefix(">"))
    return [_bare_call(lark, begun, tool["function"]) for tool in tools]


def _bare_call(lark: LarkBuilder, begun: Dialect, function: dict[str, Any]) -> str:
    opening = lark.opening(bare_start(function["name"]))
    return lark.rule(f"{opening} {_after_name(lark, begun, function)}", kind="bare")


def _call(lark: LarkBuilder, dialect: Dialect, function: dict[str, Any]) -> str:
    name = function["name"]
    if dialect.arguments is None:
        name = json.dumps(name, ensure_ascii=False)[1:-1]
    start, rest = lark.text(dialect.call_start + name), _after_name(lark, dialect, function)
    return lark.rule(f"{start} {rest}", kind="call")


def _after_name(lark: LarkBuilder, dialect: Dialect, function: dict[str, Any]) -> str:
    is_strict = bool(function.get("strict"))
    schema = _object_schema(function.get("parameters") or {})
    if dialect.arguments is None:
        arguments = lark.schema(schema, is_strict=is_strict)
    else:
        arguments = _Arguments(lark, dialect.arguments, schema, is_strict=is_strict).rule()
    before, number, after = dialect.after_name.partition(NUMBER)
    items = [
        lark.text(before),
        *([_ANY_NUMBER, lark.text(after)] if number else []),
        arguments,
        lark.text(dialect.call_end),
    ]
    return lark.rule(" ".join(items), kind="arguments")


def _object_schema(parameters: Schema) -> Schema:
    """Arguments are an object of the properties that are named, if any are."""
    schema = {"type": "object", **parameters}
    says_more = any(word in schema for word in ("$ref", "anyOf", "oneOf", "allOf"))
    says_more |= not set(schema.get("required", ())) <= set(schema.get("properties", ()))
    if not says_more and schema.setdefault("additionalProperties", False) is False:
        schema.setdefault("properties", {})
    return schema


class _Arguments:
    """Tagged arguments in the order of the schema: each required one, any of the others."""

    def __init__(self, lark: LarkBuilder, tagged: Tagged, schema: Schema, *, is_strict: bool):
        self._lark = lark
        self._tagged = tagged
        self._schema = schema
        self._is_strict = is_strict

    def rule(self) -> str:
        properties = self._schema.get("properties")
        is_by_pattern = not properties and bool(self._schema.get("patternProperties"))
        if not isinstance(properties, dict) or is_by_pattern:
            return self._any_keys()
        required = self._schema.get("required", ())
        lark, between = self._lark, self._lark.text(self._tagged.between)
        # Built from the end: what may follow one argument, and what may follow none.
        after_some = after_none = lark.rule('""', kind="end")
        for key, schema in reversed(properties.items()):
            one = self._argument(lark.text(self._tagged.before_key + key), schema)
            must = key in required
            some = f"{between} {one} {after_some}" + ("" if must else f" | {after_some}")
            none = f"{one} {after_some}" + ("" if must else f" | {after_none}")
            after_some, after_none = lark.rule(some, kind="some"), lark.rule(none, kind="none")
        return after_none

    def _any_keys(self) -> str:
        """The schema does not say which there are."""
        one = self._argument(f"{self._lark.text(self._tagged.before_key)} {_KEY}", {})
        more = self._lark.rule(f"{self._lark.text(self._tagged.between)} {one}", kind="more")
        return self._lark.rule(f'"" | {one} {more}*', kind="arguments")

    def _argument(self, before: str, schema: Any) -> str:
        value = self._value(schema if isinstance(schema, dict) else {})
        items = [before, self._lark.text(self._tagged.after_key), value]
        return self._lark.rule(" ".join(items), kind="argument")

    def _value(self, schema: Schema) -> str:
        marks, after = self._tagged.text_marks, self._lark.text(self._tagged.after_value)
        is_text = schema.get("type") == "string"
        is_text |= _may_be_text(schema) and not self._tagged.has_json_unions
        if marks is None or not is_text:
            whole = {**schema, **{name: self._schema[name] for name in _DEFS & self._schema.keys()}}
            return f"{self._lark.schema(whole, is_strict=self._is_strict)} {after}"
        before, after_text = marks
        if (texts := schema.get("enum")) and all(isinstance(one, str) for one in texts):
            each = " | ".join(map(self._lark.text, texts))
            chosen = self._lark.rule(each, kind="enum")
            return f"{self._lark.text(before)} {chosen} {self._lark.text(after_text)} {after}"
        until = self._lark.until(after_text + self._tagged.after_value)
        return f"{self._lark.text(before)} {until}"


_DEFS = {"$defs", "definitions"}


def _may_be_text(schema: Schema) -> bool:
    """Then its parser takes it as the text that it is."""
    kinds = schema.get("type")
    if kinds is None and isinstance(schema.get("anyOf"), list):
        return any(isinstance(one, dict) and _may_be_text(one) for one in schema["anyOf"])
    if kinds is None:
        return "$ref" not in schema and not any(one in schema for one in ("oneOf", "allOf"))
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)

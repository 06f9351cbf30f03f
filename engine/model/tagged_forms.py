"""How each dialect with tagged arguments is read while it comes: an entry a parser of mlx-lm.

    header NAME   key KEY value value_end   key KEY value value_end ...   call_end

Looser than the writing (tool_dialects.py): what the parsers bear. It does not know values' types.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import regex

Schemas = dict[str, Any]
_QWEN_TEXT_TYPES = frozenset({"string", "str", "text", "varchar", "char", "enum"})
_QUOTED = r"\"[^\"]*\"|'[^']*'|[^\s\"'<>]+"
_BREAK = r"(?:\\n|\s)*"
_ATTRIBUTES = r"(?:(?!<\|sep\|>).)*"  # lazy with a question mark behind it


class Trim(enum.Enum):
    """What of a text's surrounding space is not the text's own."""

    NOTHING = enum.auto()
    ONE_BREAK = enum.auto()
    SPACE = enum.auto()


class Literal(enum.Enum):
    """How a value says that it is text."""

    SCHEMA = enum.auto()  # not at all: its schema does
    ATTRIBUTE = enum.auto()  # by a type in the key's tag
    MARKED = enum.auto()  # by marks around it, which it cannot contain
    QUOTED = enum.auto()  # by quotes as in JSON
    PYTHON = enum.auto()  # by quotes as in Python


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaggedForm:
    """`whole`: one call with the argument KEY = VALUE, for the dialect's parser. `call_end` None:
    the section's end is the call's. `last`: how a call that has such an end is written at its end,
    with the section's. Texts that begin with `aside` are not read while they come."""

    header: regex.Pattern[str]
    key: regex.Pattern[str]
    value_end: str
    call_end: regex.Pattern[str] | None
    whole: str
    literal: Literal = Literal.SCHEMA
    is_text: Callable[[Schemas, str], bool] = lambda schemas, key: False
    trim: Trim = Trim.NOTHING
    has_null: bool = False
    aside: str = ""
    last: str = ""


def form_of(parser_name: str | None) -> TaggedForm | None:
    return _FORMS.get(parser_name or "")


def _declared(schemas: Schemas, key: str) -> bool:
    schema = schemas.get(key)
    return isinstance(schema, dict) and schema.get("type") == "string"


def _in_qwen(schemas: Schemas, key: str) -> bool:
    schema = schemas.get(key) or None
    if not isinstance(schema, dict):
        return schema is None
    return str(schema.get("type", "")).strip().lower() in _QWEN_TEXT_TYPES


def _in_minimax(schemas: Schemas, key: str) -> bool:
    """Its parser gathers types from everywhere in a schema; only the plain case is certain."""
    if key not in schemas:
        return True
    schema = schemas[key]
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return False
    has_others = any(word in schema for word in ("anyOf", "oneOf", "allOf"))
    return not has_others and all(isinstance(one, str) for one in schema.get("enum") or ())


def _keyed(prefix: str) -> TaggedForm:
    return TaggedForm(
        header=regex.compile(rf"\s*(?P<name>[^<\s{{\[]+)\s*(?=<{prefix}arg_key>)"),
        key=regex.compile(
            rf"{_BREAK}<{prefix}arg_key>(?P<key>[^<]*)</{prefix}arg_key>{_BREAK}<{prefix}arg_value>"
        ),
        value_end=f"</{prefix}arg_value>",
        call_end=None,
        whole=(
            f"NAME<{prefix}arg_key>KEY</{prefix}arg_key><{prefix}arg_value>VALUE"
            f"</{prefix}arg_value>"
        ),
        is_text=_declared,
        trim=Trim.SPACE,
    )


def _named(tag: str, space: str = "") -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """Header and key of `<invoke name="...">` with `<parameter name="...">`."""
    call, argument = f"<{space}invoke", f"<{space}{tag}"
    return (
        regex.compile(
            rf"\s*{call}\s+name=(?P<name>[^>]+)>(?=\s*(?:{argument}\s|</{space}invoke>))"
        ),
        regex.compile(rf"\s*{argument}\s+name=(?P<key>[^>]+)>"),
    )


_INVOKE, _PARAMETER = _named("parameter")
_ATEM_INVOKE, _ATEM_PARAMETER = _named("parameter", "atem:")

_FORMS = {
    "qwen3_coder": TaggedForm(
        header=regex.compile(
            r"\s*<function=\s*(?P<name>[^\s<>]+)>(?=\s*(?:<parameter=|</function>))"
        ),
        key=regex.compile(r"\s*<parameter=\s*(?P<key>[^\s<>]+)>"),
        value_end="</parameter>",
        call_end=regex.compile(r"\s*</function>"),
        whole="<function=NAME><parameter=KEY>VALUE</parameter></function>",
        is_text=_in_qwen,
        trim=Trim.ONE_BREAK,
        has_null=True,
        last="</function>",
    ),
    "glm47": _keyed(""),
    "laguna": _keyed(""),
    "longcat": _keyed("longcat_"),
    "minimax_m2": TaggedForm(
        header=_INVOKE,
        key=_PARAMETER,
        value_end="</parameter>",
        call_end=regex.compile(r"\s*</invoke>"),
        whole='<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>',
        is_text=_in_minimax,
        trim=Trim.SPACE,
        has_null=True,
        last="</invoke>",
    ),
    "minicpm5": TaggedForm(
        header=regex.compile(rf"\s*(?P<name>{_QUOTED})\s*>(?=\s*<param\s)"),
        key=regex.compile(rf"\s*<param\s+name\s*=\s*(?P<key>{_QUOTED})\s*>"),
        value_end="</param>",
        call_end=None,
        whole='"NAME"><param name="KEY">VALUE</param>',
        is_text=_in_minimax,
        trim=Trim.SPACE,
        has_null=True,
        aside="<![CDATA[",
    ),
    "muse_spark": TaggedForm(
        header=_ATEM_INVOKE,
        key=_ATEM_PARAMETER,
        value_end="</atem:parameter>",
        call_end=regex.compile(r"\s*</atem:invoke>"),
        whole=(
            '<atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter>'
            "</atem:invoke>"
        ),
        literal=Literal.QUOTED,
        last="</atem:invoke>",
    ),
    "kimi_k3": TaggedForm(
        header=regex.compile(
            rf'\s*<\|open\|>call{_ATTRIBUTES}?\btool="(?P<name>[^"]+)"{_ATTRIBUTES}<\|sep\|>'
            r"(?=\s*(?:<\|open\|>argument|<\|close\|>call))",
            regex.DOTALL,
        ),
        key=regex.compile(
            rf"\s*<\|open\|>argument(?P<attributes>{_ATTRIBUTES})<\|sep\|>", regex.DOTALL
        ),
        value_end="<|close|>argument<|sep|>",
        call_end=regex.compile(r"\s*<\|close\|>call<\|sep\|>"),
        whole=(
            '<|open|>call tool="x"<|sep|><|open|>argument key="KEY" type="any"<|sep|>VALUE'
            "<|close|>argument<|sep|><|close|>call<|sep|>"
        ),
        literal=Literal.ATTRIBUTE,
        last="<|close|>call<|sep|>",
    ),
    "gemma4": TaggedForm(
        header=regex.compile(r"\s*call:(?P<name>[\w-]+)\{(?=\s*(?:\w+:|\}))"),
        key=regex.compile(r"\s*,?\s*(?P<key>\w+):"),
        value_end='<|"|>',
        call_end=regex.compile(r"\s*\}"),
        whole="call:x{KEY:VALUE}",
        literal=Literal.MARKED,
        last="}",
    ),
    "function_gemma": TaggedForm(
        header=regex.compile(r"\s*call:(?P<name>\w+)\{(?=\s*(?:[^:{}]+:|\}))"),
        key=regex.compile(r",?(?P<key>[^:{},]+):"),
        value_end="<escape>",
        call_end=regex.compile(r"\}"),
        whole="call:x{KEY:VALUE}",
        literal=Literal.MARKED,
        last="}",
    ),
    "pythonic": TaggedForm(
        header=regex.compile(r"[\s,\[]*(?P<name>[A-Za-z_][\w.]*)\((?=\s*(?:\w+\s*=|\)))"),
        key=regex.compile(r"\s*,?\s*(?P<key>[^\W\d]\w*)\s*=\s*"),
        value_end="",
        call_end=regex.compile(r"\s*,?\s*\)"),
        whole="[x(KEY=VALUE)]",
        literal=Literal.PYTHON,
        last=")]",
    ),
}

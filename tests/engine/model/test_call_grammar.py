"""What a grammar lets a model write as a tool call, mlx-lm's parser of that dialect can read."""

from __future__ import annotations

import importlib
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from jsonschema import validate
from llguidance import LLMatcher, LLTokenizer

from engine.model.call_grammar import MAX_CALLS, calls_rule
from engine.model.lark import LarkBuilder
from engine.model.tool_dialects import DIALECTS, NAKED, Dialect
from engine.model.tool_parsers import tools_for_parsers

BYTES = LLTokenizer("byte")
# Likelier than the rest, so that walks come to an end
ENDINGS = frozenset(b'"}])<\n|')
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "is_long": {"type": "boolean"},
    },
    "required": ["city", "days"],
}
# Two parsers do not read what is nested, or what has commas in it
NESTED = {
    "type": "object",
    "properties": {
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
        "place": {"$ref": "#/$defs/place"},
    },
    "required": ["place"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "integer"}},
            "required": ["lat"],
            "additionalProperties": False,
        }
    },
}
TOOLS = {"weather": WEATHER, "now": {}, "find-it": NESTED}
FLAT_ONLY = {"function_gemma", "pythonic"}


def tools_for(dialect_name: str) -> list[dict[str, Any]]:
    names = ["weather", "now"] if dialect_name in FLAT_ONLY else list(TOOLS)
    return [
        {"type": "function", "function": {"name": name, "parameters": TOOLS[name]}}
        for name in names
    ]


def matcher_for(dialect: Dialect, tools: list[dict[str, Any]], *, is_parallel: bool) -> LLMatcher:
    lark = LarkBuilder({})
    grammar = lark.finish(calls_rule(lark, dialect, tools, is_parallel=is_parallel))
    matcher = LLMatcher(BYTES, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def walk(matcher: LLMatcher, dialect: Dialect, chooser: random.Random) -> str:
    """A text that the grammar allows, byte by byte."""
    written = bytearray()
    while not (matcher.is_accepting() and chooser.random() < 0.5) and not matcher.is_stopped():
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        allowed = np.flatnonzero(np.unpackbits(mask, bitorder="little")[:256]).tolist()
        step = _step(allowed, text_end(dialect), chooser)
        assert matcher.consume_tokens(list(step)), (written, step)
        written += step
    return written.decode()


def _step(allowed: list[int], text_end: bytes, chooser: random.Random) -> bytes:
    """Free text, where a whole alphabet may come, ends by its marker; JSON by what closes it."""
    plain = [one for one in allowed if chr(one).isalnum() or one in ENDINGS] or allowed
    if len(plain) > 62 and ord('"') in allowed and ord("<") in allowed and ord("\n") in allowed:
        return text_end if chooser.random() < 0.3 else bytes([chooser.choice(b"abc 1")])
    ends = [one for one in plain if one in ENDINGS]
    return bytes([chooser.choice(ends if ends and chooser.random() < 0.6 else plain)])


def text_end(dialect: Dialect) -> bytes:
    if dialect.arguments is None or dialect.arguments.text_marks is None:
        return b""
    return (dialect.arguments.text_marks[1] + dialect.arguments.after_value).encode()


def read_calls(parser: ModuleType, text: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the text state machine cuts it: between the markers."""
    calls: list[dict[str, Any]] = []
    start, end = parser.tool_call_start, parser.tool_call_end
    sections = text.split(start)[1:] if end else [text.removeprefix(start)]
    for section in sections:
        parsed = parser.parse_tool_call(section.split(end)[0] if end else section, tools)
        calls += parsed if isinstance(parsed, list) else [parsed]
    return calls


@pytest.mark.parametrize("is_parallel", [True, False])
@pytest.mark.parametrize("name", DIALECTS)
def test_the_parser_reads_what_the_grammar_allows(name: str, is_parallel: bool) -> None:
    parser = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    tools = tools_for(name)
    start = matcher_for(DIALECTS[name], tools, is_parallel=is_parallel)
    chooser = random.Random(7)
    for _ in range(5):
        text = walk(start.deep_copy(), DIALECTS[name], chooser)
        calls = read_calls(parser, text, tools_for_parsers(tools))

        assert 1 <= len(calls) <= (MAX_CALLS if is_parallel else 1), text
        for call in calls:
            validate(call["arguments"], {"type": "object", **TOOLS[call["name"]]})


def test_a_model_without_calls_of_its_own_writes_bare_json() -> None:
    matcher = matcher_for(NAKED, tools_for("json_tools")[:1], is_parallel=False)

    assert matcher.consume_tokens(
        list(b'{"name": "weather", "arguments": {"city": "K", "days": 3}}')
    )
    assert matcher.is_stopped()


@pytest.mark.parametrize("properties", [{}, {"properties": {"a": {"type": "integer"}}}])
def test_what_is_required_may_be_no_named_property(properties: dict[str, Any]) -> None:
    parameters = {"type": "object", "required": ["a", "b"], **properties}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    matcher = matcher_for(NAKED, [tool], is_parallel=False)

    assert matcher.consume_tokens(list(b'{"name": "f", "arguments": {"a": 1, "b": 2}}'))
    assert matcher.is_stopped()


@pytest.mark.parametrize("more", [{}, {"properties": {}}, {"additionalProperties": False}])
def test_arguments_that_only_patterns_name_can_be_given(more: dict[str, Any]) -> None:
    parameters = {"type": "object", "patternProperties": {"^x_": {"type": "string"}}, **more}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    matcher = matcher_for(DIALECTS["qwen3_coder"], [tool], is_parallel=False)

    call = "<function=f>\n<parameter=x_a>\nb\n</parameter>\n</function>"
    assert matcher.consume_tokens(list(f"<tool_call>\n{call}\n</tool_call>".encode()))
    assert matcher.is_stopped()


def test_control_tokens_in_a_dialect_are_tokens() -> None:
    lark = LarkBuilder({"<call>": 7, "</call>": 8})

    assert lark.text("<call>\nx</call>") == '<[7]> "\\nx" <[8]>'
    assert lark.until("</call>") == r"/(.|\n)*/ <[8]>"

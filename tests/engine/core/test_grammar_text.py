"""JSON that a schema's grammar lets through fits the schema, whatever the schema is."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer

from engine import wire
from engine.core.grammar_text import (
    GrammarInvalid,
    grammar_part,
    joined,
    lark_part,
    schema_part,
)

BYTES = LLTokenizer("byte")
CLOSING = b'"]}'
NAMES = st.sampled_from(["a", "b", "c d", "é", '"'])
LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda least, span: {"type": "integer", "minimum": least, "maximum": least + span},
        st.integers(-50, 50),
        st.integers(0, 200),
    ),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 5)),
    st.builds(lambda one: {"const": one}, st.sampled_from([1, "x", None, True, "é\n"])),
    st.builds(lambda each: {"enum": each}, st.lists(NAMES, min_size=1, unique=True)),
    st.just({"type": "string", "pattern": "^[a-c]{2}$"}),
)


def _object(properties: dict[str, Any], num_required: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:num_required],
        "additionalProperties": False,
    }


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(_object, st.dictionaries(NAMES, inner, max_size=3), st.integers(0, 3)),
        st.builds(
            lambda items, most: {"type": "array", "items": items, "maxItems": most},
            inner,
            st.integers(0, 3),
        ),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
    )


SCHEMAS = st.recursive(LEAVES, _compound, max_leaves=6)


def walk(matcher: LLMatcher, chooser: random.Random) -> str:
    """A text that the grammar allows, byte by byte."""
    written = bytearray()
    while not matcher.is_stopped() and not (matcher.is_accepting() and chooser.random() < 0.5):
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        allowed = np.flatnonzero(np.unpackbits(mask, bitorder="little")[:256]).tolist()
        ascii_only = [one for one in allowed if one < 128] or allowed
        closing = [one for one in ascii_only if one in CLOSING]
        byte = chooser.choice(closing if closing and chooser.random() < 0.5 else ascii_only)
        assert matcher.consume_token(byte)
        written.append(byte)
    return written.decode()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schema=SCHEMAS, seed=st.integers(0, 1000))
def test_what_a_schema_lets_through_fits_it(schema: dict[str, Any], seed: int) -> None:
    grammar = wire.Grammar(
        kind=wire.GrammarKind.JSON_SCHEMA, param="schema", source=json.dumps(schema)
    )
    part = grammar_part(grammar, name="answer")
    matcher = LLMatcher(BYTES, joined([lark_part("start: @answer", name="top"), part]))
    assert not matcher.is_error(), matcher.get_error()

    answer = json.loads(walk(matcher, random.Random(seed)))

    Draft202012Validator(schema).validate(answer)


@pytest.mark.parametrize("pattern", ["^(?!x)", "(?<=b)c", r"^(.)\1$", r"(?<b>.)\k<b>", r"\bb\b"])
def test_a_pattern_beyond_a_grammar_is_left_out_unless_strict(pattern: str) -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": pattern, "maxLength": 2}}
    assert _lets_through(schema, '["bb"]', is_strict=False)
    assert not _lets_through(schema, '["bbb"]', is_strict=False)
    assert not _lets_through(schema, '["bb"]', is_strict=True)


@pytest.mark.parametrize(
    "name", ["const", "enum", "pattern", "properties", "patternProperties", "$defs"]
)
def test_a_property_may_have_the_name_of_a_word_of_schemas(name: str) -> None:
    one = {"type": "string", "pattern": "^(?!x)b"}
    schema = {"type": "object", "properties": {name: one}, "additionalProperties": False}
    assert _lets_through(schema, f'{{"{name}":"b"}}', is_strict=False)
    assert not _lets_through(schema, f'{{"{name}":1}}', is_strict=False)
    assert not _lets_through(schema, '{"other":"b"}', is_strict=False)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "pattern": r"^\\1$"}, '"x1"'),
        ({"type": "string", "pattern": r"^\(?=$"}, '"x1"'),
        ({"const": {"pattern": "(?!x)"}}, "{}"),
        ({"type": "object", "properties": {"pattern": {"const": "(?!x)"}}}, '{"pattern":1}'),
        (
            {"patternProperties": {"^a$": {"type": "object"}}, "additionalProperties": False},
            '{"b":{}}',
        ),
    ],
)
def test_what_a_grammar_can_hold_to_stays_though_not_strict(
    schema: dict[str, Any], text: str
) -> None:
    assert not _lets_through(schema, text, is_strict=False)


NAMED = {"type": "object", "patternProperties": {"^(?!x)": {"const": 1}, "^y$": {"const": 2}}}


@pytest.mark.parametrize("others", [{}, {"additionalProperties": False}, {"properties": {"z": {}}}])
def test_so_is_a_pattern_of_names_and_forbids_nothing(others: dict[str, Any]) -> None:
    schema = NAMED | others
    for text in ('{"abc":1}', '{"y":2}', '{"abc":1,"y":2}'):
        assert _lets_through(schema, text, is_strict=False)
        assert not _lets_through(schema, text, is_strict=True)
    assert not _lets_through(schema, '{"y":1}', is_strict=False)


def _lets_through(schema: dict[str, Any], text: str, *, is_strict: bool) -> bool:
    part = schema_part(schema, name="whole", is_strict=is_strict)
    matcher = LLMatcher(BYTES, joined([part]), log_level=0)
    return not matcher.is_error() and matcher.consume_tokens(list(text.encode()))


@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize(
    "word",
    [
        {"propertyNames": {"type": "string"}},  # zod says so of every record
        {"propertyNames": {}},
        {"uniqueItems": False},
    ],
)
def test_words_that_hold_an_answer_to_nothing_are_passed_over(
    word: dict[str, Any], is_strict: bool
) -> None:
    schema = {"additionalProperties": {"items": {"type": "integer"}, **word}, **word}

    assert _lets_through(schema, '{"a":[1,1]}', is_strict=is_strict)
    assert not _lets_through(schema, '{"a":["b"]}', is_strict=is_strict)


@pytest.mark.parametrize(
    "word", [{"propertyNames": {"enum": ["a"]}}, {"propertyNames": False}, {"uniqueItems": True}]
)
def test_words_that_no_grammar_can_hold_an_answer_to_are_refused_if_strict(
    word: dict[str, Any],
) -> None:
    assert not _lets_through(word, "{", is_strict=True)


def test_a_property_may_have_the_name_of_such_a_word() -> None:
    schema = {"properties": {"uniqueItems": False}}
    for is_strict in (True, False):
        assert not _lets_through(schema, '{"uniqueItems":1}', is_strict=is_strict)
    assert not _lets_through({"const": {"uniqueItems": False}}, "{}", is_strict=True)


@pytest.mark.parametrize("spaces", ["", " ", "\n", "\n    "])
def test_json_may_be_laid_out(spaces: str) -> None:
    grammar = wire.Grammar(kind=wire.GrammarKind.JSON_OBJECT, param="response_format")
    matcher = LLMatcher(BYTES, joined([grammar_part(grammar, name="whole")]))

    assert matcher.consume_tokens(list(f'{{{spaces}"a":{spaces}[{spaces}1{spaces}]}}'.encode()))
    assert matcher.is_accepting()


def test_json_cannot_be_spaces_for_ever() -> None:
    grammar = wire.Grammar(kind=wire.GrammarKind.JSON_OBJECT, param="response_format")
    matcher = LLMatcher(BYTES, joined([grammar_part(grammar, name="whole")]), log_level=0)

    assert not matcher.consume_tokens(list(b'{"a":' + b"\n" * 3))


@pytest.mark.parametrize(
    ("kind", "source"),
    [("json_schema", "{"), ("choice", "[]"), ("choice", "[1]"), ("gbnf", "root = 1")],
)
def test_what_cannot_be_read_is_told(kind: str, source: str) -> None:
    grammar = wire.Grammar(kind=wire.GrammarKind(kind), param="p", source=source)
    with pytest.raises(GrammarInvalid):
        grammar_part(grammar, name="answer")

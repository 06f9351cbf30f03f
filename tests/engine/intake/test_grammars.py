"""Grammars before they are let in: what can be compiled, what cannot, and what would never end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from engine import wire
from engine.intake.grammar_check import grammars_of
from engine.intake.grammar_desk import MAX_SOURCE_CHARACTERS, GrammarDesk
from engine.intake.grammar_trial import MEMORY_BYTES
from engine.intake.refusal import Refusal
from tests.makers import make_generate
from tests.waiting import wait_until

PARAM = "response_format.json_schema.schema"
Try = Callable[..., None]


@pytest.fixture(scope="module")
def desk() -> Iterator[GrammarDesk]:
    desk = GrammarDesk()
    desk.warm_up()
    yield desk
    desk.close()


@pytest.fixture
def try_grammar(desk: GrammarDesk) -> Try:
    """Wait for the verdict. Raises Refusal."""

    def try_grammar(kind: str, source: Any = "", **changes: Any) -> None:
        text = source if isinstance(source, str) else json.dumps(source)
        grammar = wire.Grammar(kind=wire.GrammarKind(kind), param=PARAM, source=text, **changes)
        wait_until(lambda: desk.check([grammar]))

    return try_grammar


def bomb(width: int) -> dict[str, Any]:
    """All combinations of many alternatives."""

    def one(number: int) -> dict[str, Any]:
        branches = [
            {"type": "object", "properties": {f"p{number}_{i}": {"type": "string"}}}
            for i in range(width)
        ]
        return {"anyOf": branches}

    return {"allOf": [one(number) for number in range(width)]}


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_object", ""),
        ("json_schema", {"type": "object", "properties": {"a": {"type": "integer"}}}),
        ("json_schema", {"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}),
        ("json_schema", True),
        ("regex", "[0-9]{3}/(a|b)"),
        ("choice", ["yes", 'no "quoted"\n']),
        ("lark", 'start: "a" b+\nb: /[0-9]/'),
        ("gbnf", 'root ::= "yes" | "no"'),
    ],
)
def test_what_can_be_compiled_is_let_in(try_grammar: Try, kind: str, source: Any) -> None:
    try_grammar(kind, source)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_schema", {"type": "objekt"}),
        ("json_schema", {"not": {"type": "string"}}),
        ("json_schema", "{"),
        ("json_schema", "[" * 5000),
        ("json_schema", {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}),
        ("regex", "(unclosed"),
        ("choice", []),
        ("choice", ["a", 7]),
        ("choice", {"a": "b"}),
        ("lark", "start: unknown_rule"),
        ("lark", ""),
        ("gbnf", 'root ::= missing "a"'),
        ("gbnf", "no grammar at all"),
    ],
)
def test_what_cannot_be_compiled_is_refused_by_name(
    try_grammar: Try, kind: str, source: Any
) -> None:
    with pytest.raises(Refusal) as caught:
        try_grammar(kind, source)

    refused = caught.value.refused
    assert (refused.code, refused.param) == (wire.Code.INVALID_VALUE, PARAM)
    assert len(refused.detail) < 500


@pytest.mark.parametrize("is_strict", [True, False])
def test_an_object_too_wide_for_an_answer_is_refused_before_it_begins(
    try_grammar: Try, is_strict: bool
) -> None:
    def wide(num_properties: int) -> dict[str, Any]:
        properties = {f"p{number}": {"type": "integer"} for number in range(num_properties)}
        return {"type": "object", "properties": properties}

    try_grammar("json_schema", wide(1000), is_strict=is_strict)
    with pytest.raises(Refusal) as caught:
        try_grammar("json_schema", wide(2000), is_strict=is_strict)
    assert caught.value.refused.param == PARAM


def test_a_schema_that_is_not_strict_may_say_more_than_can_be_held(try_grammar: Try) -> None:
    try_grammar("json_schema", {"type": "object", "not": {"required": ["a"]}}, is_strict=False)


def test_a_bomb_is_refused_soon_and_others_go_on_meanwhile(desk: GrammarDesk) -> None:
    grammar = wire.Grammar(
        kind=wire.GrammarKind.JSON_SCHEMA, param=PARAM, source=json.dumps(bomb(9))
    )
    good = wire.Grammar(
        kind=wire.GrammarKind.REGEX, param="regex", source=f"[0-9]{{{id(desk) % 97}}}"
    )
    wait_until(lambda: desk.check([wire.Grammar(kind=wire.GrammarKind.JSON_OBJECT, param="x")]))
    started = time.monotonic()

    assert desk.check([grammar]) is False
    wait_until(lambda: desk.check([good]))
    good_after = time.monotonic() - started
    with pytest.raises(Refusal) as caught:
        wait_until(lambda: desk.check([grammar]))

    assert good_after < 1.0
    assert time.monotonic() - started < 2.5
    assert caught.value.refused.param == PARAM
    with pytest.raises(Refusal):
        desk.check([grammar])  # known at once from now on


def test_a_trial_that_cannot_begin_ends_its_own_request_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = GrammarDesk()
    known, unlucky = nasty("regex", "kno(wn)?"), nasty("regex", "un(lucky)?")
    wait_until(lambda: desk.check([known]))  # by one of the trials; the other has not begun
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    def ask_for_both() -> bool:
        try:
            assert desk.check([known])
        except FileNotFoundError:
            pytest.fail("another's request is told")
        return desk.check([unlucky])

    with pytest.raises(FileNotFoundError):
        wait_until(ask_for_both)
    assert desk.check([known])
    desk.close()


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def web(size: int) -> dict[str, Any]:
    """Objects that refer to one another all over."""

    def one(number: int) -> dict[str, Any]:
        others = {side: (number * step + 1) % size for side, step in (("l", 7), ("r", 3))}
        properties = {side: {"$ref": f"#/$defs/n{other}"} for side, other in others.items()}
        return {"type": "object", "properties": properties}

    return {"$defs": {f"n{at}": one(at) for at in range(size)}, "$ref": "#/$defs/n0"}


WORDS = [f"w{number * 2654435761 % 10**9}" for number in range(50_000)]
PATTERNS = [{"type": "string", "pattern": f".*[{one}].{{10}}"} for one in "abcdefghij"]
NASTY = {
    "deep": ("json_schema", nested(5000)),
    "web": ("json_schema", web(200)),
    "product": ("json_schema", bomb(9)),
    "values": ("json_schema", {"enum": WORDS}),
    "crossing": ("json_schema", {"allOf": PATTERNS}),
    "long text": ("json_schema", {"type": "string", "minLength": 10**5, "maxLength": 10**6}),
    "words": ("regex", "|".join(WORDS)),
    "powers": ("regex", "((a{1,1000}){1,1000}){1,1000}"),
    "stars": ("regex", "((a|b)*c?)*" * 500),
    "backwards": ("regex", ".*a.{5000}"),
    "choices": ("choice", [f"{word} {number}" for number in range(8) for word in WORDS]),
    "rules": ("lark", "start: " + " ".join(["start"] * 500) + ' | "a" | ""'),
}


def test_nothing_nasty_harms_the_desk(desk: GrammarDesk) -> None:
    """Each is let in or refused by its name; then the desk goes on as before."""
    pending = {name: nasty(kind, source) for name, (kind, source) in NASTY.items()}
    refused = {}

    def all_are_settled() -> bool:
        for name, grammar in list(pending.items()):
            try:
                if desk.check([grammar]):
                    del pending[name]
            except Refusal as refusal:
                refused[name] = refusal.refused
                del pending[name]
        return not pending

    wait_until(all_are_settled, seconds=60.0)
    assert {"deep", "product", "crossing", "choices"} <= refused.keys()
    assert {one.param for one in refused.values()} == {PARAM}
    wait_until(lambda: desk.check([nasty("regex", "after(wards)?")]))


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of a running process")
def test_a_trial_has_a_cap_on_its_memory() -> None:
    command = [sys.executable, "-m", "engine.intake.grammar_trial"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as trial:
        assert trial.stdin is not None and trial.stdout is not None
        assert trial.stdout.readline() == b"ready\n"
        process = psutil.Process(trial.pid)
        cap, _ = process.rlimit(psutil.RLIMIT_AS)
        assert 0 < cap <= process.memory_info().vms + MEMORY_BYTES
        trial.stdin.close()
    assert trial.returncode == 0


def nasty(kind: str, source: Any) -> wire.Grammar:
    text = source if isinstance(source, str) else _dumped(source)
    return wire.Grammar(kind=wire.GrammarKind(kind), param=PARAM, source=text)


def _dumped(source: Any) -> str:
    """Also what is too deep for Python's own writer."""
    try:
        return json.dumps(source)
    except RecursionError:
        return '{"properties":{"a":' * 5000 + "{}" + "}}" * 5000


def test_a_grammar_that_is_too_long_is_not_even_tried(desk: GrammarDesk) -> None:
    grammar = wire.Grammar(
        kind=wire.GrammarKind.REGEX, param="regex", source="a" * (MAX_SOURCE_CHARACTERS + 1)
    )
    with pytest.raises(Refusal) as caught:
        desk.check([grammar])

    assert caught.value.refused.numbers["limit"] == MAX_SOURCE_CHARACTERS


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def test_tools_that_must_be_called_are_tried_too() -> None:
    tools = (tool("a", {"type": "object"}), tool("b"), tool("c", {"type": "array"}))
    required = make_generate("r", tools=tools, tool_choice=wire.ToolChoice(is_required=True))
    named = make_generate("r", tools=tools, tool_choice=wire.ToolChoice(is_required=True, name="c"))

    assert grammars_of(make_generate("r", tools=tools)) == []
    assert [one.param for one in grammars_of(required)] == [
        "tools[0].function.parameters",
        "tools[2].function.parameters",
    ]
    assert [one.source for one in grammars_of(named)] == ['{"type": "array"}']


def test_strict_tools_are_tried_though_none_must_be_called() -> None:
    strict = tool("b", {"type": "object"})
    strict["function"]["strict"] = True
    generate = make_generate("r", tools=(tool("a", {"type": "object"}), strict))

    assert [one.param for one in grammars_of(generate)] == ["tools[1].function.parameters"]


@pytest.mark.parametrize(
    ("tools", "name"), [((), None), ((tool("a"),), "b"), (({"type": "web_search"},), None)]
)
def test_a_choice_among_no_tools_is_refused(tools: tuple[dict[str, Any], ...], name: str) -> None:
    choice = wire.ToolChoice(is_required=True, name=name)
    with pytest.raises(Refusal) as caught:
        grammars_of(make_generate("r", tools=tools, tool_choice=choice))

    assert caught.value.refused.param == "tool_choice"

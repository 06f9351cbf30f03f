"""How callers of chat completions say what an answer must look like, and what they may not say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from engine import wire
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
SCHEMA = {"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
NAMED = {"type": "function", "function": {"name": "g"}}


async def ask(api: AsyncClient, **fields: Any) -> HttpResponse:
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return await api.post("/v1/chat/completions", body, content_type="application/json")


def json_schema(schema: Any, **changes: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **changes}}


@pytest.mark.parametrize(
    ("fields", "kind", "param", "source"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object", "response_format", ""),
        (
            {"response_format": json_schema(SCHEMA)},
            *("json_schema", "response_format.json_schema.schema", json.dumps(SCHEMA)),
        ),
        ({"guided_json": SCHEMA}, "json_schema", "guided_json", json.dumps(SCHEMA)),
        ({"guided_json": json.dumps(SCHEMA)}, "json_schema", "guided_json", json.dumps(SCHEMA)),
        ({"guided_regex": "[ab]+"}, "regex", "guided_regex", "[ab]+"),
        ({"guided_choice": ["x", "y"]}, "choice", "guided_choice", '["x", "y"]'),
        ({"guided_grammar": 'start: "a"'}, "lark", "guided_grammar", 'start: "a"'),
        ({"grammar": 'root ::= "a"'}, "gbnf", "grammar", 'root ::= "a"'),
        ({"structured_outputs": {"regex": "a"}}, "regex", "structured_outputs.regex", "a"),
        (
            {"structured_outputs": {"json_object": True}},
            *("json_object", "structured_outputs.json_object", ""),
        ),
    ],
)
async def test_each_way_of_saying_it_is_one_grammar(
    api: AsyncClient,
    engine: ScriptedEngine,
    fields: dict[str, Any],
    kind: str,
    param: str,
    source: str,
) -> None:
    assert (await ask(api, **fields)).status_code == 200

    grammar = engine.generates[0].grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param, grammar.source) == (kind, param, source)


async def test_a_schema_is_strict_when_it_says_so(api: AsyncClient, engine: ScriptedEngine) -> None:
    await ask(api, response_format=json_schema(SCHEMA, strict=True))
    await ask(api, response_format=json_schema(SCHEMA))

    grammars = [generate.grammar for generate in engine.generates]
    assert [one and one.is_strict for one in grammars] == [True, False]


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}, {"grammar": None}])
async def test_text_needs_no_grammar(
    api: AsyncClient, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    await ask(api, **fields)

    assert engine.generates[0].grammar is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": json_schema(None)}, "response_format.json_schema.schema"),
        ({"response_format": json_schema([1])}, "response_format.json_schema.schema"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": '{"x": ' * 700 + "1" + "}" * 700}, "guided_json"),
        ({"guided_json": '{"const": 1e999}'}, "guided_json"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "h"}}},
            "tool_choice",
        ),
        ({"tools": TOOLS, "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_name(
    api: AsyncClient, engine: ScriptedEngine, fields: dict[str, Any], param: str
) -> None:
    response = await ask(api, **fields)

    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert engine.generates == []


@pytest.mark.parametrize(
    ("fields", "names", "choice"),
    [
        ({}, ["f", "g"], wire.ToolChoice()),
        ({"tool_choice": "auto"}, ["f", "g"], wire.ToolChoice()),
        ({"tool_choice": "none"}, [], wire.ToolChoice()),
        ({"tool_choice": "required"}, ["f", "g"], wire.ToolChoice(is_required=True)),
        ({"tool_choice": NAMED}, ["f", "g"], wire.ToolChoice(is_required=True, name="g")),
        ({"parallel_tool_calls": False}, ["f", "g"], wire.ToolChoice(is_parallel=False)),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "required", "tools": [NAMED]},
                }
            },
            *(["g"], wire.ToolChoice(is_required=True)),
        ),
    ],
)
async def test_the_choice_of_tools_reaches_the_engine(
    api: AsyncClient,
    engine: ScriptedEngine,
    fields: dict[str, Any],
    names: list[str],
    choice: wire.ToolChoice,
) -> None:
    assert (await ask(api, tools=TOOLS, **fields)).status_code == 200

    sent = engine.generates[0]
    assert [tool["function"]["name"] for tool in sent.tools] == names
    assert sent.tool_choice == choice

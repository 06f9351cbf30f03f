"""Tools of a namespace in POST /v1/responses: one for the model, apart in what a client reads."""

from __future__ import annotations

import pytest
from django.test import AsyncClient

from engine import wire
from tests.hosting import codex
from tests.hosting.scripted_engine import HELLO, ScriptedEngine, delta, finished
from tests.hosting.test_api_responses import events_of, messages_for, whole

pytestmark = pytest.mark.usefixtures("model")
PART = wire.ToolCallPart(index=0, call_id="c1", name="mcp__files__read_file")
CALLED = (
    delta('{"path":"a"}', wire.Channel.TOOL_CALL, tool_call=PART),
    finished(wire.FinishReason.TOOL_CALLS),
)
PATCH = wire.ToolCallPart(index=0, call_id="c1", name="mcp__files__apply_patch")
PATCHED = (
    delta('{"input":"*"}', wire.Channel.TOOL_CALL, tool_call=PATCH),
    finished(wire.FinishReason.TOOL_CALLS),
)


async def test_the_model_knows_them_by_both_names(api: AsyncClient, engine: ScriptedEngine) -> None:
    body = await whole(api, tools=[codex.FILES], tool_choice="required")
    (tool,) = engine.generates[0].tools
    assert tool["function"] == {
        "name": "mcp__files__read_file",
        "description": "Reads a file.",
        "strict": False,
        "parameters": codex.FILES["tools"][0]["parameters"],
    }
    assert body["tools"] == [codex.FILES]


async def test_calls_say_both_names_apart(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = CALLED
    events = await events_of(api, tools=[codex.FILES])
    items = [event["item"] for event in events if "item" in event]
    assert [(one["namespace"], one["name"]) for one in items] == [("mcp__files", "read_file")] * 2
    (done,) = [one for one in events if one["type"].endswith("arguments.done")]
    assert done["name"] == "read_file"


async def test_calls_of_custom_tools_say_both_names_too(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = PATCHED
    (call,) = (await whole(api, tools=[codex.FILES | {"tools": [codex.PATCH]}]))["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", "*")
    assert (call["namespace"], call["name"]) == ("mcp__files", "apply_patch")


async def test_a_call_that_is_replayed_is_the_models_own(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = CALLED
    output = (await whole(api, tools=[codex.FILES]))["output"]
    engine.script = HELLO
    result = {"type": "function_call_output", "call_id": "c1", "output": "b"}
    message, _ = await messages_for(api, engine, [*output, result], tools=[codex.FILES])
    assert message["tool_calls"][0]["function"]["name"] == PART.name


async def test_one_of_them_can_be_chosen(api: AsyncClient, engine: ScriptedEngine) -> None:
    choice = {"type": "function", "namespace": "mcp__files", "name": "read_file"}
    await whole(api, tools=[codex.FILES], tool_choice=choice)
    assert engine.generates[0].tool_choice.name == PART.name

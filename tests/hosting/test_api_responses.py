"""POST /v1/responses, asked in process: items, events, refusals, and what Codex sends."""

from __future__ import annotations

import json
from typing import Any

import openresponses_types
import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from engine import wire
from hosting.api import responses_reply
from hosting.models import Generation
from tests.hosting import codex
from tests.hosting.scripted_engine import HELLO, ScriptedEngine, delta, finished
from tests.hosting.test_openai_description import CALLS, MEASURED, QUEUED, THOUGHT
from tests.openapi.description import check, check_event

pytestmark = pytest.mark.usefixtures("model")
FUNCTION = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "strict": False,
}
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Patches files."}
CALL = {"type": "function_call", "name": "add", "arguments": "{}", "call_id": "c1"}
ALLOWED = {"type": "allowed_tools", "mode": "auto"}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


async def ask(api: AsyncClient, given: Any = "Hi", **fields: Any) -> HttpResponse:
    body = {"model": "demo", "input": given, **fields}
    return await api.post("/v1/responses", body, content_type="application/json")


async def whole(api: AsyncClient, given: Any = "Hi", **fields: Any) -> dict[str, Any]:
    """The answer in one piece, of the published forms."""
    response = await ask(api, given, **fields)
    assert response.status_code == 200, response.content
    body: dict[str, Any] = response.json()
    check("Response", body)
    return body


async def events_of(api: AsyncClient, given: Any = "Hi", **fields: Any) -> list[dict[str, Any]]:
    """The events of a stream: each of its published form, their numbers without a gap."""
    response: Any = await ask(api, given, stream=True, **fields)
    assert response.status_code == 200, response.content
    text = b"".join([part async for part in response.streaming_content]).decode()
    events = []
    for block in filter(None, text.split("\n\n")):
        if block.startswith(":"):
            continue
        name, _, data = block.partition("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        check_event(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] in TERMINAL
    return events


async def test_what_can_wait_has_the_lowest_priority(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = await whole(api, service_tier="flex")
    assert (body["service_tier"], engine.generates[0].priority) == ("flex", wire.Priority.BATCH)


def types_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def joined(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(one["delta"] for one in events if one["type"] == f"response.{kind}.delta")


async def messages_for(api: AsyncClient, engine: ScriptedEngine, given: Any, **fields: Any) -> Any:
    await whole(api, given, **fields)
    return engine.generates[-1].messages


async def test_an_answer_comes_in_one_piece(api: AsyncClient, engine: ScriptedEngine) -> None:
    body = await whole(api, instructions="Be brief.", metadata={"run": "7"})
    (message,) = body["output"]
    assert message["content"] == [
        {"type": "output_text", "text": "Hello world", "annotations": [], "logprobs": []}
    ]
    assert body["status"] == "completed"
    assert body["instructions"] == "Be brief."
    assert body["metadata"] == {"run": "7"}
    assert body["service_tier"] == "default"
    assert body["store"] is False
    assert body["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 11,
    }
    assert body["id"] == f"resp_{(await Generation.objects.aget()).pk.hex}"


async def test_a_stream_tells_each_part_of_a_message(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    events = await events_of(api)
    assert types_of(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    assert joined(events, "output_text") == "Hello world"
    item = events[-2]["item"]
    assert item["content"][0]["text"] == "Hello world"
    assert events[-1]["response"]["output"] == [item]
    assert events[-1]["timings"]["queued_seconds"] == 0.25


@pytest.mark.parametrize("script", [HELLO, CALLS, THOUGHT, MEASURED, QUEUED])
async def test_whole_and_streamed_answers_have_the_published_forms(
    api: AsyncClient, engine: ScriptedEngine, script: tuple[wire.Event, ...]
) -> None:
    engine.script = script
    fields = {"tools": [FUNCTION], "top_logprobs": 1}
    body = await whole(api, **fields)
    openresponses_types.ResponseResource.model_validate(body)
    streamed = (await events_of(api, **fields))[-1]["response"]
    openresponses_types.ResponseResource.model_validate(streamed)
    assert [item["type"] for item in streamed["output"]] == [one["type"] for one in body["output"]]


async def test_a_waiting_stream_says_its_place(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = (wire.Queued(position=2, wait_seconds=3.0), *HELLO)
    events = await events_of(api)
    assert types_of(events)[:4] == ["created", "in_progress", "queued", "in_progress"]
    assert events[2]["queue"] == {"position": 2, "wait_seconds": 3.0}
    assert events[2]["response"]["status"] == "queued"
    assert events[3]["response"]["status"] == "in_progress"


async def test_progress_becomes_an_event_when_nothing_was_said_for_long(
    api: AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses_reply, "SILENT_SECONDS", 0.0)
    engine.script = (wire.Prefilled(done_tokens=1, total_tokens=9), *HELLO)
    assert types_of(await events_of(api))[:3] == ["created", "in_progress", "in_progress"]


async def test_thoughts_are_an_item_of_their_own(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = THOUGHT
    events = await events_of(api)
    thoughts, message = events[-1]["response"]["output"]
    assert thoughts["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert "encrypted_content" not in thoughts
    assert message["content"][0]["text"] == "Yes."
    assert joined(events, "reasoning_text") == "Hm."
    assert events[-1]["response"]["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}


async def test_arguments_of_calls_are_streamed(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = CALLS
    events = await events_of(api, tools=[FUNCTION])
    first, second = events[-1]["response"]["output"]
    assert (first["call_id"], first["name"], first["arguments"]) == ("c1", "add", '{"a":1}')
    assert (second["call_id"], second["name"], second["arguments"]) == ("c2", "now", "{}")
    assert first["id"].startswith("fc_")
    deltas = [one for one in events if one["type"] == "response.function_call_arguments.delta"]
    assert [(one["output_index"], one["delta"]) for one in deltas] == [
        *[(0, '{"a":'), (0, "1}")],
        (1, "{}"),
    ]


@pytest.mark.parametrize("depth", [500, 979, 5000])
async def test_a_custom_tools_input_may_be_brackets_without_end(
    api: AsyncClient, engine: ScriptedEngine, depth: int
) -> None:
    given = f'{{"input": {"[" * depth}{"]" * depth}}}'
    part = wire.ToolCallPart(index=0, call_id="c1", name="apply_patch")
    engine.script = (
        delta(given, wire.Channel.TOOL_CALL, tool_call=part),
        finished(wire.FinishReason.TOOL_CALLS),
    )
    events = await events_of(api, tools=[CUSTOM])
    (call,) = events[-1]["response"]["output"]
    assert call["input"] == given


async def test_calls_of_custom_tools_carry_plain_text(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    part = wire.ToolCallPart(index=0, call_id="c1", name="apply_patch")
    engine.script = (
        delta('{"input": "*** Begin', wire.Channel.TOOL_CALL, tool_call=part),
        delta(
            ' Patch\\n"}',
            wire.Channel.TOOL_CALL,
            tool_call=wire.ToolCallPart(index=0, call_id="c1"),
        ),
        finished(wire.FinishReason.TOOL_CALLS),
    )
    events = await events_of(api, tools=[CUSTOM])
    (call,) = events[-1]["response"]["output"]
    assert call["type"] == "custom_tool_call"
    assert call["input"] == "*** Begin Patch\n"
    assert joined(events, "custom_tool_call_input") == call["input"]
    (tool,) = engine.generates[-1].tools
    assert tool["function"]["parameters"]["required"] == ["input"]


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_the_choice_may_be_among_some_of_the_tools(
    api: AsyncClient, engine: ScriptedEngine, mode: str
) -> None:
    allowed = [
        {"type": "custom", "name": "apply_patch"},
        {"type": "function", "namespace": "mcp__files", "name": "read_file"},
        {"type": "image_generation"},
    ]
    choice = {"type": "allowed_tools", "mode": mode, "tools": allowed}
    body = await whole(api, tools=[FUNCTION, CUSTOM, codex.FILES], tool_choice=choice)
    assert body["tool_choice"] == choice
    sent = engine.generates[-1]
    names = [tool["function"]["name"] for tool in sent.tools]
    assert names == ["apply_patch", "mcp__files__read_file"]
    assert sent.tool_choice == wire.ToolChoice(is_required=mode == "required")


async def test_an_answer_cut_by_its_limit_is_incomplete(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (delta("Hel"), finished(wire.FinishReason.LENGTH))
    events = await events_of(api, max_output_tokens=2)
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert engine.generates[-1].max_tokens == 2


async def test_a_failure_in_mid_stream_is_told_in_the_stream(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    broken = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke.")
    engine.script = (delta("Hel"), broken)
    events = await events_of(api)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"] == {
        "code": "server_error",
        "message": "engine_error: The model broke.",
    }


async def test_a_refusal_has_a_true_status(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.refusal = wire.Refused(
        code=wire.Code.CONTEXT_LENGTH_EXCEEDED, detail="Too long.", param="messages"
    )
    response = await ask(api, stream=True)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_a_replayed_turn_is_one_assistant_message(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (*THOUGHT[:2], *CALLS)
    asked = {"type": "message", "role": "user", "content": "Add."}
    fields = {"tools": [FUNCTION], "include": ["reasoning.encrypted_content"]}
    output = (await whole(api, [asked], **fields))["output"]
    for item in output:
        item.pop("content", None) if item["type"] == "reasoning" else None
    results = [
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "noon"}],
        },
    ]
    engine.script = HELLO
    assert await messages_for(api, engine, [asked, *output, *results], **fields) == (
        {"role": "user", "content": "Add."},
        {
            "role": "assistant",
            "content": "Yes.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":1}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
        {"role": "tool", "content": "noon", "tool_call_id": "c2"},
    )


async def test_two_turns_in_a_row_stay_two_messages(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    said = [{"role": "assistant", "content": text} for text in ("One.", "Two.")]
    messages = await messages_for(api, engine, [*said, {"role": "user", "content": "?"}])
    assert [message["content"] for message in messages] == ["One.", "Two.", "?"]


async def codex_events(api: AsyncClient, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    body = codex.request(given)
    del body["stream"]
    return await events_of(api, body.pop("input"), **body)


async def test_what_codex_sends_is_understood(api: AsyncClient, engine: ScriptedEngine) -> None:
    foreign = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    events = await codex_events(api, [*codex.first_turn(), foreign])
    assert events[-1]["type"] == "response.completed"
    sent = engine.generates[-1]
    assert sent.messages == (
        {"role": "system", "content": "You code.\n\nPermissions.\n\nMode."},
        {"role": "user", "content": "<environment_context/>"},
        {"role": "user", "content": "Fix it."},
    )
    names = [tool["function"]["name"] for tool in sent.tools]
    assert names == ["shell", "apply_patch", "mcp__files__read_file"]
    assert "start: X" in sent.tools[1]["function"]["description"]
    assert sent.template_options["reasoning_effort"] == "medium"


async def test_codexs_later_turns_keep_what_came_before(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    for turn in (codex.first_turn(), codex.second_turn(), codex.third_turn()):
        await codex_events(api, turn)
    first, second, third = (generate.messages or () for generate in engine.generates)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    (call,) = second[len(first)]["tool_calls"]
    assert call["function"]["arguments"] == codex.ARGUMENTS
    assert second[-1] == {"role": "system", "content": "Another mode."}


async def test_who_names_an_item_is_told_how_to_send_it(api: AsyncClient) -> None:
    body = {"model": "demo", "input": [{"type": "item_reference", "id": "msg_1"}]}
    response = await api.post("/v1/responses", body, content_type="application/json")
    assert '"store": false' in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 7}, "input"),
        ({"input": []}, "input"),
        ({"input": [7]}, "input[0]"),
        ({"input": [{"type": "telegram"}]}, "input[0].type"),
        ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 1}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "arguments": {}}]}, "input[0].arguments"),
        ({"input": [CALL | {"namespace": 7}]}, "input[0].namespace"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "reasoning", "summary": "x"}]}, "input[0].summary"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [FUNCTION | {"parameters": "x"}]}, "tools[0].parameters"),
        ({"tools": [{"type": "namespace", "name": "a"}]}, "tools[0].tools"),
        ({"tools": [codex.FILES | {"tools": [{"type": "function"}]}]}, "tools[0].tools[0].name"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"tool_choice": ALLOWED | {"tools": 7}}, "tool_choice.tools"),
        ({"tool_choice": ALLOWED | {"tools": [7]}}, "tool_choice.tools[0]"),
        ({"tool_choice": ALLOWED | {"tools": [{"type": "custom"}]}}, "tool_choice.tools[0].name"),
        ({"tool_choice": ALLOWED | {"tools": [], "mode": "required"}}, "tool_choice"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"reasoning": {"effort": "heroic"}}, "reasoning.effort"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 7}, "temperature"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"stop": 7}, "stop"),
        ({"model": "gone"}, "model"),
    ],
)
async def test_a_bad_field_is_named(api: AsyncClient, fields: dict[str, Any], param: str) -> None:
    body = {"model": "demo", "input": "Hi", **fields}
    response = await api.post("/v1/responses", body, content_type="application/json")
    assert response.status_code in (400, 404)
    assert response.json()["error"]["param"] == param
    assert not await Generation.objects.aexists()

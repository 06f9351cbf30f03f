"""POST /v1/messages, asked in process: the order of events, blocks, usage, parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from accounts.models import Quota, User
from engine import wire
from hosting.models import Generation, HostedModel
from tests.hosting import claude_code
from tests.hosting.scripted_engine import HELLO as HELLO_SCRIPT
from tests.hosting.scripted_engine import ScriptedEngine, delta, finished

pytestmark = pytest.mark.usefixtures("model")
HELLO = [{"role": "user", "content": "Hi"}]
SPENT = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 4,
    "output_tokens": 2,
    "output_tokens_details": {"thinking_tokens": 0},
}
_CALL = wire.Channel.TOOL_CALL
CALLS = (
    delta("Let me look.", wire.Channel.REASONING),
    delta("I read "),
    delta("them."),
    delta('{"a":', _CALL, tool_call=wire.ToolCallPart(index=0, call_id="call_1", name="add")),
    delta("1}", _CALL, tool_call=wire.ToolCallPart(index=0, call_id="call_1")),
    delta("", _CALL, tool_call=wire.ToolCallPart(index=1, call_id="call_2", name="now")),
    finished(wire.FinishReason.TOOL_CALLS, reasoning_tokens=1),
)


NO_ARGUMENTS = (
    '{"a": "\\ud83d"}',
    '{"a": 1e999}',
    *(f'{{"a": {"[" * depth}{"]" * depth}}}' for depth in (500, 979, 5000)),
)


async def ask(api: AsyncClient, **fields: Any) -> HttpResponse:
    return await send(api, {"model": "demo", "max_tokens": 50, "messages": HELLO, **fields})


async def send(
    api: AsyncClient, body: dict[str, Any], path: str = "/v1/messages", **headers: str
) -> HttpResponse:
    return await api.post(path, body, content_type="application/json", headers=headers)


async def events_of(response: Any) -> list[dict[str, Any]]:
    """The data of each event; its name is checked against it."""
    text = b"".join([part async for part in response.streaming_content]).decode()
    events = []
    for block in filter(None, text.split("\n\n")):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        name, data = (line.split(": ", 1)[1] for line in lines)
        events.append(json.loads(data))
        assert events[-1]["type"] == name
    return events


async def test_an_answer_comes_in_one_piece_with_usage(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api)
    row = await Generation.objects.aget()
    assert response.json() == {
        "id": f"msg_{row.pk.hex}",
        "type": "message",
        "role": "assistant",
        "model": "demo",
        "content": [{"type": "text", "text": "Hello world"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": SPENT,
    }
    assert response["request-id"].startswith("req_")


async def test_the_events_of_a_stream_come_in_their_order(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    events = await events_of(await ask(api, stream=True))
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, end = events[0]["message"], events[-2]
    assert (start["content"], start["stop_reason"]) == ([], None)
    assert start["usage"]["input_tokens"] > 0
    assert events[2]["delta"] == {"type": "text_delta", "text": "Hello"}
    assert end["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert end["usage"] == SPENT
    assert end["timings"]["ttft_seconds"] == 0.5


async def test_thinking_text_and_calls_are_blocks_in_their_order(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = CALLS
    events = await events_of(await ask(api, stream=True))
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert starts == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]
    deltas = [(e["index"], e["delta"]) for e in events if e["type"] == "content_block_delta"]
    assert deltas == [
        (0, {"type": "thinking_delta", "thinking": "Let me look."}),
        (0, {"type": "signature_delta", "signature": "hearth"}),
        (1, {"type": "text_delta", "text": "I read "}),
        (1, {"type": "text_delta", "text": "them."}),
        (2, {"type": "input_json_delta", "partial_json": '{"a":'}),
        (2, {"type": "input_json_delta", "partial_json": "1}"}),
        (3, {"type": "input_json_delta", "partial_json": "{}"}),
    ]
    stops = [e["index"] for e in events if e["type"] == "content_block_stop"]
    assert stops == [0, 1, 2, 3]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens_details"] == {"thinking_tokens": 1}


async def test_the_same_blocks_come_in_one_piece(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = CALLS
    assert (await ask(api)).json()["content"] == [
        {"type": "thinking", "thinking": "Let me look.", "signature": "hearth"},
        {"type": "text", "text": "I read them."},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]


@pytest.mark.parametrize(
    ("end", "context_tokens", "expected"),
    [
        (finished(), 260, ("end_turn", None)),
        (finished(wire.FinishReason.LENGTH), 4096, ("max_tokens", None)),
        (finished(wire.FinishReason.LENGTH), 260, ("model_context_window_exceeded", None)),
    ],
)
async def test_every_end_has_its_reason(
    api: AsyncClient,
    engine: ScriptedEngine,
    end: wire.Finished,
    context_tokens: int,
    expected: tuple[str, str | None],
) -> None:
    """Of a prompt of 4 tokens and an answer that may have 256."""
    await HostedModel.objects.aupdate(context_limit_tokens=context_tokens)
    engine.script = (delta("Hi"), end)
    body = (await ask(api, max_tokens=None)).json()
    assert (body["stop_reason"], body["stop_sequence"]) == expected


async def test_an_answer_that_a_limit_cuts_has_met_no_context(
    api: AsyncClient, engine: ScriptedEngine, person: User
) -> None:
    await Quota.objects.acreate(user=person, max_output_tokens=5)
    engine.script = (delta("Hi"), finished(wire.FinishReason.LENGTH))
    assert (await ask(api, max_tokens=100)).json()["stop_reason"] == "max_tokens"


async def test_a_stop_sequence_is_named(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = (
        delta("Hi"),
        wire.Finished(
            reason=wire.FinishReason.STOP,
            usage=wire.Usage(prompt_tokens=9),
            timings=wire.Timings(),
            stop_string="END",
        ),
    )
    body = (await ask(api, stop_sequences=["END", "\n\n"])).json()
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")
    assert engine.generates[0].stop == ("END", "\n\n")


async def test_waiting_is_pings_with_the_place_beside_them(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (wire.Queued(position=3), *HELLO_SCRIPT)
    response: Any = await ask(api, stream=True)
    text = b"".join([part async for part in response.streaming_content]).decode()
    assert ': queued 3\nevent: ping\ndata: {"type":"ping"}\n\n' in text
    assert text.startswith("event: message_start\n")


async def test_a_silent_stream_gives_pings(
    api: AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.HEARTBEAT_SECONDS", 0.05)
    engine.script = ()
    response: Any = await ask(api, stream=True)
    parts = aiter(response.streaming_content)
    assert b"message_start" in await anext(parts)
    assert await anext(parts) == b'event: ping\ndata: {"type":"ping"}\n\n'
    await parts.aclose()


async def test_parameters_reach_the_wire(api: AsyncClient, engine: ScriptedEngine) -> None:
    await ask(
        api,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        thinking={"type": "enabled", "budget_tokens": 1024},
        metadata={"user_id": "x"},
        service_tier="auto",
        tools=[{"name": "f", "input_schema": {"type": "object"}, "strict": True}],
    )
    sent = engine.generates[0]
    assert sent.tools[0]["function"]["strict"] is True
    assert (sent.sampling.temperature, sent.sampling.top_p, sent.sampling.top_k) == (0.5, 0.9, 40)
    assert sent.max_tokens == 50
    assert sent.template_options == {"enable_thinking": True}


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        ({"thinking": {"type": "between_tools"}}, {"enable_thinking": False}),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            {"enable_thinking": True, "reasoning_effort": "low"},
        ),
    ],
)
async def test_thinking_is_the_models_own_affair_unless_asked_for(
    api: AsyncClient, engine: ScriptedEngine, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    await ask(api, **fields)
    assert engine.generates[0].template_options == options


async def test_claude_codes_first_turn_is_answered(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = claude_code.request(claude_code.first_turn())
    events = await events_of(await send(api, body, "/v1/messages?beta=true", **claude_code.HEADERS))
    sent = engine.generates[0]
    assert events[-1] == {"type": "message_stop"}
    assert sent.messages == (
        {"role": "system", "content": "You are a coding agent.\n\nBe careful with files."},
        {
            "role": "user",
            "content": f"{claude_code.REMINDER}\n\nRead a.txt\n\n"
            f"<system-reminder>\n{claude_code.SKILLS}\n</system-reminder>",
        },
    )
    assert [tool["function"]["name"] for tool in sent.tools] == ["Read", "Write"]


async def test_deferred_tools_follow_the_others(api: AsyncClient, engine: ScriptedEngine) -> None:
    """Claude Code lists those that it has looked up among the others, by the alphabet."""
    body = claude_code.request(claude_code.first_turn())
    late = [dict(claude_code.TOOLS[0], name=name, defer_loading=True) for name in ("Ask", "Sum")]
    body["tools"] = [late[0], claude_code.TOOLS[0], late[1], claude_code.TOOLS[1]]
    await events_of(await send(api, body, **claude_code.HEADERS))
    names = [tool["function"]["name"] for tool in engine.generates[0].tools]
    assert names == ["Read", "Write", "Ask", "Sum"]


async def test_claude_codes_next_turn_keeps_the_prefix(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    first = claude_code.request(claude_code.first_turn(), nonce="0df")
    second = claude_code.request(claude_code.second_turn(), nonce="7d4")
    for body in (first, second):
        await events_of(await send(api, body, **claude_code.HEADERS))
    before, after = (generate.messages for generate in engine.generates)
    assert before is not None
    assert after is not None
    assert after[: len(before)] == before
    call, *results = after[len(before) :]
    assert call["reasoning_content"] == "Two files."
    assert call["content"] == "I read them."
    assert [one["function"]["arguments"] for one in call["tool_calls"]] == [
        '{"file_path": "a.txt"}',
        '{"file_path": "b.txt"}',
    ]
    assert results == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "1\talpha"},
        {
            "role": "tool",
            "tool_call_id": "toolu_2",
            "content": "<tool_use_error>no b</tool_use_error>",
        },
    ]


async def test_neighbours_of_one_role_are_one_message(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
    said = [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "there"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Well."}]},
        {"role": "assistant", "content": "Let me see."},
        {"role": "assistant", "content": [{"type": "text", "text": "The time:"}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
    ]
    assert (await ask(api, messages=said)).status_code == 200
    user, assistant, result = engine.generates[0].messages or ()
    assert user["content"] == "Hi\n\nthere"
    assert assistant["reasoning_content"] == "Well."
    assert assistant["content"] == "Let me see.\n\nThe time:"
    assert [one["id"] for one in assistant["tool_calls"]] == ["toolu_1"]
    assert result["role"] == "tool"


async def test_claude_codes_title_is_answered(api: AsyncClient, engine: ScriptedEngine) -> None:
    events = await events_of(await send(api, claude_code.title_request(), **claude_code.HEADERS))
    assert events[-1] == {"type": "message_stop"}
    assert engine.generates[0].tools == ()


async def test_the_alias_names_the_model_and_is_repeated(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = (await ask(api, model="anthropic/demo")).json()
    assert body["model"] == "anthropic/demo"
    assert engine.generates[0].model == "demo"


async def test_documents_of_text_are_read(api: AsyncClient, engine: ScriptedEngine) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Grass is green."}
    blocks = [{"type": "document", "source": source}, {"type": "text", "text": "What is?"}]
    await ask(api, messages=[{"role": "user", "content": blocks}], system="Be brief.")
    assert engine.generates[0].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Grass is green.\n\nWhat is?"},
    )


async def test_tokens_are_counted_without_a_generation(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = {"model": "demo", "messages": HELLO, "system": "Be brief."}
    response = await send(api, body, "/v1/messages/count_tokens")
    assert response.json() == {"input_tokens": 7}
    assert engine.counted[0].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    )
    assert not await Generation.objects.aexists()


async def test_the_models_come_in_this_dialect_when_asked_in_it(api: AsyncClient) -> None:
    version = {"anthropic-version": "2023-06-01"}
    listed = (await api.get("/v1/models?limit=1000", headers=version)).json()
    assert listed["has_more"] is False
    assert listed["first_id"] == listed["last_id"] == "demo"
    one = listed["data"][0]
    assert (one["type"], one["max_input_tokens"]) == ("model", 4096)
    assert one["lifecycle"] == "active"  # the SDK's type asks for it
    assert one["created_at"].endswith("Z")
    assert (await api.get("/v1/models/demo", headers=version)).json() == one


async def test_claude_code_finds_names_that_it_shows(api: AsyncClient) -> None:
    listed = (await api.get("/v1/models?limit=1000", headers=claude_code.HEADERS)).json()
    assert [one["id"] for one in listed["data"]] == ["anthropic/demo"]
    found = await api.get("/v1/models/anthropic/demo", headers=claude_code.HEADERS)
    assert found.status_code == 200


@pytest.mark.parametrize("arguments", NO_ARGUMENTS)
async def test_arguments_that_no_json_can_carry_are_none(
    api: AsyncClient, engine: ScriptedEngine, arguments: str
) -> None:
    part = wire.ToolCallPart(index=0, call_id="call_1", name="add")
    engine.script = (
        delta(arguments, _CALL, tool_call=part),
        finished(wire.FinishReason.TOOL_CALLS),
    )
    response = await ask(api)
    assert response.status_code == 200, response.content
    (block,) = json.loads(response.content)["content"]
    assert (block["type"], block["input"]) == ("tool_use", {})

"""POST /v1/chat/completions, asked in process: shapes, parameters, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from accounts.models import ApiKey
from engine import wire
from hosting.models import Generation, HostedModel
from tests.hosting import opencode
from tests.hosting.scripted_engine import ScriptedEngine, delta, finished

pytestmark = pytest.mark.usefixtures("model")
HELLO = [{"role": "user", "content": "Hi"}]
SPENT = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


async def ask(api: AsyncClient, **fields: Any) -> HttpResponse:
    body = {"model": "demo", "messages": HELLO, **fields}
    return await api.post("/v1/chat/completions", body, content_type="application/json")


async def lines_of(response: Any) -> list[str]:
    text = b"".join([part async for part in response.streaming_content]).decode()
    return [line for line in text.split("\n\n") if line]


def chunks_in(lines: list[str]) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


async def test_an_answer_comes_in_one_piece_with_usage(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api)
    body = response.json()
    assert response.status_code == 200
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello world", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == SPENT


async def test_headers_carry_the_request_id_and_the_timings(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api)
    assert response["x-request-id"].startswith("req_")
    assert response["x-request-id"] == response["request-id"]
    assert response["x-cached-tokens"] == "4"
    assert response["x-queue-ms"] == "250"
    assert response["x-ttft-ms"] == "500"
    assert int(response["openai-processing-ms"]) >= 0


async def test_a_stream_opens_with_the_role_and_ends_with_done(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    lines = await lines_of(await ask(api, stream=True))
    chunks = chunks_in(lines)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Hello"},
        {"content": " world"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 3 + ["stop"]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert lines[-1] == "data: [DONE]"


async def test_a_stream_has_the_headers_that_proxies_need(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api, stream=True)
    await lines_of(response)
    assert response["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response["Cache-Control"] == "no-cache"
    assert response["X-Accel-Buffering"] == "no"


async def test_usage_is_the_last_chunk_when_asked_for(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api, stream=True, stream_options={"include_usage": True})
    *others, last = chunks_in(await lines_of(response))
    assert last["choices"] == []
    assert last["usage"] == SPENT
    assert last["timings"]["ttft_seconds"] == 0.5
    assert all(chunk["usage"] is None for chunk in others)


async def test_reasoning_and_tool_calls_have_their_own_deltas(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    call = wire.Channel.TOOL_CALL
    engine.script = (
        delta("Hm.", wire.Channel.REASONING),
        delta('{"a":', call, tool_call=wire.ToolCallPart(index=0, call_id="call_1", name="add")),
        delta("1}", call, tool_call=wire.ToolCallPart(index=0, call_id="call_1")),
        finished(wire.FinishReason.TOOL_CALLS, reasoning_tokens=1),
    )
    chunks = chunks_in(await lines_of(await ask(api, stream=True)))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks][1:-1]
    function = {"name": "add", "arguments": '{"a":'}
    assert deltas == [
        {"reasoning_content": "Hm."},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_call_that_is_cut_before_its_arguments_has_an_empty_object(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    call = wire.Channel.TOOL_CALL
    first = wire.ToolCallPart(index=0, call_id="call_1", name="add")
    second = wire.ToolCallPart(index=1, call_id="call_2", name="add")
    begun = (delta("", call, tool_call=first), delta("{}", call, tool_call=first))
    engine.script = (*begun, delta("", call, tool_call=second), finished(wire.FinishReason.LENGTH))
    *_, empty, end = chunks_in(await lines_of(await ask(api, stream=True)))
    assert empty["choices"][0]["delta"] == {
        "tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]
    }
    assert end["choices"][0]["finish_reason"] == "length"
    calls = (await ask(api)).json()["choices"][0]["message"]["tool_calls"]
    assert [one["function"]["arguments"] for one in calls] == ["{}", "{}"]


async def test_tool_calls_come_whole_without_streaming(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    part = wire.ToolCallPart(index=0, call_id="call_1", name="now")
    engine.script = (
        delta("", wire.Channel.TOOL_CALL, tool_call=part),
        finished(wire.FinishReason.TOOL_CALLS),
    )
    message = (await ask(api)).json()["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    ]


async def test_logprobs_come_with_tokens_and_bytes(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    token = wire.TokenLogprob(token_id=1, text="é", logprob=-0.5)
    engine.script = (
        delta("é", logprobs=(wire.PositionLogprobs(token=token, top=(token,)),)),
        finished(),
    )
    logprobs = (await ask(api, logprobs=True, top_logprobs=1)).json()["choices"][0]["logprobs"]
    plain = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    assert logprobs == {"content": [plain | {"top_logprobs": [plain]}], "refusal": None}
    assert engine.generates[0].sampling.top_logprobs == 1


async def test_n_choices_are_n_generations_with_different_seeds(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = (await ask(api, n=3, seed=7)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"]["prompt_tokens"] == 9
    assert body["usage"]["completion_tokens"] == 6
    assert sorted(generate.sampling.seed for generate in engine.generates) == [7, 8, 9]


async def test_places_in_the_queue_and_pauses_are_comments(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (
        wire.Queued(position=3),
        wire.Loading(fraction=0.43),
        wire.Prefilled(done_tokens=5, total_tokens=9),
        wire.Paused(),
        finished(),
    )
    lines = await lines_of(await ask(api, stream=True))
    told = [": queued 3", ": loading 43%", ": prefill 5/9", ": waiting for memory"]
    assert lines[1:5] == told


async def test_a_silent_stream_gives_signs_of_life(
    api: AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.HEARTBEAT_SECONDS", 0.05)
    engine.script = ()
    response = await ask(api, stream=True)
    parts = aiter(response.streaming_content)
    assert b"role" in await anext(parts)
    assert await anext(parts) == b": keep-alive\n\n"
    await parts.aclose()


async def test_parameters_reach_the_wire(api: AsyncClient, engine: ScriptedEngine) -> None:
    await ask(
        api,
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, presence_penalty=0.2,
        frequency_penalty=0.3, repetition_penalty=1.1, seed=11, stop=["a", "b"], max_tokens=5,
        max_completion_tokens=6, logit_bias={"12": -100}, reasoning_effort="high",
        chat_template_kwargs={"style": "brief"},
    )  # fmt: skip
    sent = engine.generates[0]
    assert sent.sampling == wire.Sampling(
        seed=11, temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, presence_penalty=0.2,
        frequency_penalty=0.3, repetition_penalty=1.1, logit_bias=((12, -100.0),),
    )  # fmt: skip
    assert (sent.stop, sent.max_tokens) == (("a", "b"), 6)
    assert sent.template_options == {
        "enable_thinking": True,
        "reasoning_effort": "high",
        "style": "brief",
    }
    assert sent.priority == wire.Priority.API


@pytest.mark.parametrize(
    ("asked", "told", "priority"),
    [("flex", "flex", wire.Priority.BATCH), ("priority", "default", wire.Priority.API)],
)
async def test_a_request_that_can_wait_has_the_lowest_priority(
    api: AsyncClient, engine: ScriptedEngine, asked: str, told: str, priority: wire.Priority
) -> None:
    whole = (await ask(api, service_tier=asked)).json()
    lines = await lines_of(await ask(api, service_tier=asked, stream=True))
    assert [one.priority for one in engine.generates] == [priority] * 2
    assert {one["service_tier"] for one in (whole, *chunks_in(lines))} == {told}


async def test_the_models_own_defaults_fill_what_is_not_given(
    api: AsyncClient, engine: ScriptedEngine, model: HostedModel
) -> None:
    await HostedModel.objects.filter(pk=model.pk).aupdate(
        default_temperature=0.3, default_max_tokens=50
    )
    await ask(api)
    assert engine.generates[0].sampling.temperature == 0.3
    assert engine.generates[0].max_tokens == 50


async def test_messages_reach_the_wire_in_order_and_in_one_form(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "a":1}'}}
    part = {"type": "text"}
    await ask(
        api,
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [part | {"text": "a"}, part | {"text": "b"}]},
            {"role": "assistant", "content": None, "tool_calls": [call], "unknown": 1},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
    )  # fmt: skip
    assert engine.generates[0].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    )


async def test_unknown_fields_and_tool_types_are_ignored(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    tools = [{"type": "web_search"}, {"type": "function", "function": {"name": "f"}}]
    response = await ask(api, tools=tools, store=True, metadata={"a": 1}, service_tier="auto")
    assert response.status_code == 200
    assert engine.generates[0].tools == (tools[1],)


async def test_what_a_tool_says_is_null_is_not_said(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    nulls = {"description": None, "parameters": None, "strict": None}
    await ask(api, tools=[{"type": "function", "function": {"name": "f", **nulls}}])
    assert engine.generates[0].tools == ({"type": "function", "function": {"name": "f"}},)


async def test_no_tools_reach_the_model_when_none_may_be_called(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    await ask(api, tools=tools, tool_choice="none")
    assert engine.generates[0].tools == ()


async def test_the_generation_knows_who_asked(api: AsyncClient, engine: ScriptedEngine) -> None:
    body = (await ask(api, user="ignored")).json()
    row = await Generation.objects.select_related("api_key", "user").aget()
    assert body["id"] == f"chatcmpl-{row.pk.hex}"
    assert row.user.email == "ada@example.org"
    assert row.api_key == await ApiKey.objects.aget()
    assert (row.kind, row.tenant) == ("api", f"user:{row.user_id}")


async def test_opencodes_later_turns_keep_what_came_before(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    for turn in (opencode.first_turn(), opencode.second_turn(), opencode.third_turn()):
        await lines_of(await ask(api, **opencode.request(turn)))
    first, second, third = (generate.messages or () for generate in engine.generates)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    called = second[len(first)]
    assert called["reasoning_content"] == "A file."
    assert called["tool_calls"][0]["function"]["arguments"] == opencode.ARGUMENTS
    assert second[-1] == {"role": "system", "content": "The person has opened b.txt."}


@pytest.mark.parametrize(
    "system",
    [
        "x-anthropic-billing-header: cc_version=2.1;\nBe careful.",
        [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"},
            {"type": "text", "text": "Be careful."},
        ],
    ],
)
async def test_a_billing_line_is_dropped_here_too(
    api: AsyncClient, engine: ScriptedEngine, system: Any
) -> None:
    await ask(api, messages=[{"role": "system", "content": system}, *HELLO])
    assert (engine.generates[0].messages or ())[0]["content"] == "Be careful."

"""The openai package against a real Daphne: what it reads, what it raises, what it leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from engine import wire
from hosting.models import Generation, HostedModel
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine, delta, finished
from tests.hosting.web_process import wait_until, web

HELLO: Any = [{"role": "user", "content": "Hi"}]
__all__ = ["web"]


@pytest.fixture
def client(web: str, api_key: str, model: HostedModel) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=web, api_key=api_key, max_retries=0) as made:
        yield made


async def ask_and_leave(web: str, api_key: str, *, when: Callable[[], bool]) -> None:
    async with openai.AsyncOpenAI(base_url=web, api_key=api_key, max_retries=0) as client:
        asking = asyncio.create_task(client.chat.completions.create(model="demo", messages=HELLO))
        await asyncio.to_thread(wait_until, when, "asked")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


def test_it_reads_a_whole_answer(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    answer = client.chat.completions.create(model="demo", messages=HELLO)
    assert answer.choices[0].message.content == "Hello world"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4
    assert answer._request_id is not None
    assert answer._request_id.startswith("req_")


def test_it_reads_a_stream(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    stream = client.chat.completions.create(
        model="demo", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "Hello world"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 11


@pytest.mark.parametrize("route", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
def test_a_reader_for_whom_lines_also_end_at_rare_characters_gets_whole_events(
    web: str, api_key: str, model: HostedModel, engine: ScriptedEngine, route: str
) -> None:
    told = "one\u2028two\u2029three\x85four"
    engine.script = (delta(told), finished())
    headers, body = {"Authorization": f"Bearer {api_key}"}, GOOD[route] | {"stream": True}
    url = httpx.URL(web).join(route)
    with httpx.stream("POST", url, headers=headers, json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    events = [line.partition(": ") for line in lines if line != "data: [DONE]"]
    bodies = [json.loads(body) for field, _, body in events if field == "data"]
    assert {field for field, _, _ in events} <= {"data", "event", ""}
    assert any(told in json.dumps(body, ensure_ascii=False) for body in bodies)


def test_it_puts_tool_calls_together(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    call = wire.Channel.TOOL_CALL
    engine.script = (
        delta('{"a":', call, tool_call=wire.ToolCallPart(index=0, call_id="c1", name="add")),
        delta("1}", call, tool_call=wire.ToolCallPart(index=0, call_id="c1")),
        delta("{}", call, tool_call=wire.ToolCallPart(index=1, call_id="c2", name="now")),
        finished(wire.FinishReason.TOOL_CALLS),
    )
    with client.chat.completions.stream(model="demo", messages=HELLO) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    assert [(one.id, one.function.arguments) for one in message.tool_calls] == [
        ("c1", '{"a":1}'),
        ("c2", "{}"),
    ]


def test_it_raises_the_right_errors(
    client: openai.OpenAI, engine: ScriptedEngine, web: str
) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gone", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="demo", messages=HELLO, temperature=7)
    assert bad.value.param == "temperature"
    with (
        openai.OpenAI(base_url=web, api_key="sk-wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_it_raises_an_error_in_mid_stream(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    broken = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke.")
    engine.script = (delta("Hel"), broken)
    stream = client.chat.completions.create(model="demo", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="The model broke"):
        list(stream)


def test_it_lists_the_models(client: openai.OpenAI) -> None:
    assert [one.id for one in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").owned_by == "hearth"


def test_leaving_a_stream_cancels_its_generation(
    client: openai.OpenAI, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    stream = client.chat.completions.create(model="demo", messages=HELLO, stream=True)
    texts = (chunk.choices[0].delta.content for chunk in stream)
    assert "Hello" in texts
    stream.close()
    wait_until(lambda: bool(engine.cancelled), "cancelled")
    assert engine.cancelled == [str(Generation.objects.get().pk)]


def test_leaving_while_waiting_for_an_answer_cancels_it(
    web: str, api_key: str, model: HostedModel, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    asyncio.run(ask_and_leave(web, api_key, when=lambda: bool(engine.begun)))
    wait_until(lambda: bool(engine.cancelled), "cancelled")


def test_leaving_while_waiting_for_acceptance_cancels_it(
    web: str, api_key: str, model: HostedModel, engine: ScriptedEngine
) -> None:
    engine.is_silent = True
    asyncio.run(ask_and_leave(web, api_key, when=lambda: bool(engine.generates)))
    wait_until(lambda: Generation.objects.filter(is_cancel_requested=True).exists(), "cancelled")

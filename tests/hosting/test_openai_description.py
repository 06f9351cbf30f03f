"""Chat completions, models and errors have the form that OpenAI's own description promises."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from engine import wire
from tests.hosting.scripted_engine import HELLO, ScriptedEngine, delta, finished
from tests.hosting.test_api_chat_completions import ask, chunks_in, lines_of
from tests.openapi.description import check

pytestmark = pytest.mark.usefixtures("model")

_CALL = wire.Channel.TOOL_CALL
CALLS = (
    delta('{"a":', _CALL, tool_call=wire.ToolCallPart(index=0, call_id="c1", name="add")),
    delta("1}", _CALL, tool_call=wire.ToolCallPart(index=0, call_id="c1")),
    delta("{}", _CALL, tool_call=wire.ToolCallPart(index=1, call_id="c2", name="now")),
    finished(wire.FinishReason.TOOL_CALLS),
)
THOUGHT = (delta("Hm.", wire.Channel.REASONING), delta("Yes."), finished(reasoning_tokens=1))
TOKEN = wire.TokenLogprob(token_id=1, text="Hé", logprob=-0.5)
MEASURED = (
    delta("Hé", logprobs=(wire.PositionLogprobs(token=TOKEN, top=(TOKEN,)),)),
    finished(wire.FinishReason.LENGTH),
)
QUEUED = (wire.Queued(position=2), wire.Loading(fraction=0.5), *HELLO)
SCRIPTS: list[tuple[tuple[wire.Event, ...], dict[str, Any]]] = [
    (HELLO, {}),
    (HELLO, {"n": 3}),
    (CALLS, {}),
    (THOUGHT, {}),
    (MEASURED, {"logprobs": True, "top_logprobs": 1}),
    (QUEUED, {}),
]


@pytest.mark.parametrize(("script", "fields"), SCRIPTS)
async def test_a_chat_completion_has_the_published_form(
    api: AsyncClient,
    engine: ScriptedEngine,
    script: tuple[wire.Event, ...],
    fields: dict[str, Any],
) -> None:
    engine.script = script
    response = await ask(api, **fields)
    assert response.status_code == 200
    check("CreateChatCompletionResponse", response.json())


@pytest.mark.parametrize(("script", "fields"), SCRIPTS)
@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
async def test_every_chunk_of_a_stream_has_the_published_form(
    api: AsyncClient,
    engine: ScriptedEngine,
    script: tuple[wire.Event, ...],
    fields: dict[str, Any],
    options: dict[str, Any],
) -> None:
    engine.script = script
    chunks = chunks_in(await lines_of(await ask(api, stream=True, **fields, **options)))
    assert len(chunks) >= 3
    for chunk in chunks:
        check("CreateChatCompletionStreamResponse", chunk)


async def test_models_have_the_published_form(api: AsyncClient) -> None:
    check("ListModelsResponse", (await api.get("/v1/models")).json())
    check("Model", (await api.get("/v1/models/demo")).json())


async def test_errors_have_the_published_form(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.refusal = wire.Refused(code=wire.Code.CONTEXT_LENGTH_EXCEEDED, detail="Too long.")
    answers = [
        await ask(api),
        await ask(api, temperature=7),
        await ask(api, model="gone"),
        await AsyncClient().get("/v1/models"),
        await api.get("/v1/nothing"),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 404, 401, 404]
    for answer in answers:
        check("ErrorResponse", answer.json())


def test_the_measure_itself_sees_a_fault() -> None:
    with pytest.raises(AssertionError, match="'owned_by' is a required property"):
        check("Model", {"id": "demo", "object": "model", "created": 1})

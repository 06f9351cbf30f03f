"""POST /v1/completions, asked in process: prompts of every form, choices, logprobs, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from engine import wire
from hosting.models import Generation
from tests.hosting.scripted_engine import ScriptedEngine, delta, finished
from tests.hosting.test_api_chat_completions import chunks_in, lines_of
from tests.openapi.description import check

pytestmark = pytest.mark.usefixtures("model")


async def ask(api: AsyncClient, **fields: Any) -> HttpResponse:
    body = {"model": "demo", "prompt": "Once", **fields}
    return await api.post("/v1/completions", body, content_type="application/json")


async def test_what_can_wait_has_the_lowest_priority(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    await ask(api, service_tier="flex")
    await ask(api)
    sent = [one.priority for one in engine.generates]
    assert sent == [wire.Priority.BATCH, wire.Priority.API]


async def test_an_answer_comes_in_one_piece_with_usage(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = (await ask(api)).json()
    row = await Generation.objects.aget()
    assert body["id"] == f"cmpl-{row.pk.hex}"
    assert body["choices"] == [
        {"index": 0, "text": "Hello world", "logprobs": None, "finish_reason": "stop"}
    ]
    assert (body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]) == (9, 11)
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    check("CreateCompletionResponse", body)
    sent = engine.generates[0]
    assert (sent.prompt, sent.messages, sent.max_tokens) == ("Once", None, 16)


async def test_a_stream_has_texts_an_end_and_usage(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await ask(api, stream=True, stream_options={"include_usage": True})
    lines = await lines_of(response)
    *texts, end, last = chunks_in(lines)
    assert [chunk["choices"][0]["text"] for chunk in texts] == ["Hello", " world"]
    assert end["choices"][0]["finish_reason"] == "stop"
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 11)
    assert (lines[0], lines[-1]) == (": accepted", "data: [DONE]")


@pytest.mark.parametrize("fields", [{}, {"echo": True}, {"logprobs": 1}, {"n": 2}])
async def test_every_chunk_has_the_published_form(
    api: AsyncClient, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = chunks_in(await lines_of(await ask(api, **options, **fields)))
    assert len(chunks) >= 4
    for chunk in chunks:
        # The description forgets what OpenAI itself sends before the end: null for both
        for choice in chunk["choices"]:
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        if chunk["usage"] is None:
            del chunk["usage"]
        check("CreateCompletionResponse", chunk)


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("Once", [("Once", None)]),
        (["Once", "Twice"], [("Once", None), ("Twice", None)]),
        ([1, 2], [(None, (1, 2))]),
        ([[1, 2], [3]], [(None, (1, 2)), (None, (3,))]),
    ],
)
async def test_prompts_of_every_form_reach_the_wire(
    api: AsyncClient, engine: ScriptedEngine, prompt: Any, sent: list[Any]
) -> None:
    body = (await ask(api, prompt=prompt)).json()
    assert [choice["index"] for choice in body["choices"]] == list(range(len(sent)))
    arrived = [(one.prompt, one.prompt_token_ids) for one in engine.generates]
    assert sorted(arrived, key=str) == sorted(sent, key=str)
    assert body["usage"]["prompt_tokens"] == 9 * len(sent)


async def test_choices_of_a_prompt_stand_together_and_share_it(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    body = (await ask(api, prompt=["a", "b"], n=2, seed=7, echo=True)).json()
    texts = [choice["text"] for choice in body["choices"]]
    assert texts == ["aHello world", "aHello world", "bHello world", "bHello world"]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (18, 8)
    seeds = sorted((one.prompt, one.sampling.seed) for one in engine.generates)
    assert seeds == [("a", 7), ("a", 8), ("b", 7), ("b", 8)]


async def test_the_echo_is_the_first_chunk(api: AsyncClient, engine: ScriptedEngine) -> None:
    chunks = chunks_in(await lines_of(await ask(api, echo=True, stream=True)))
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["Once", "Hello", " world", ""]


@pytest.mark.parametrize(("suffix", "sent"), [("the end.", "the end."), ("", None), (None, None)])
async def test_a_suffix_asks_for_what_is_between(
    api: AsyncClient, engine: ScriptedEngine, suffix: str | None, sent: str | None
) -> None:
    assert (await ask(api, suffix=suffix)).status_code == 200
    assert engine.generates[0].suffix == sent


async def test_logprobs_have_the_older_form(api: AsyncClient, engine: ScriptedEngine) -> None:
    tokens = [wire.TokenLogprob(token_id=n, text=t, logprob=-n) for n, t in enumerate(("Hé", "y"))]
    engine.script = (
        *(delta(t.text, logprobs=(wire.PositionLogprobs(token=t, top=(t,)),)) for t in tokens),
        finished(),
    )
    body = (await ask(api, logprobs=1)).json()
    assert body["choices"][0]["logprobs"] == {
        "text_offset": [0, 2],
        "token_logprobs": [0, -1],
        "tokens": ["Hé", "y"],
        "top_logprobs": [{"Hé": 0}, {"y": -1}],
    }
    check("CreateCompletionResponse", body)
    assert engine.generates[0].sampling.top_logprobs == 1


async def test_tokens_of_one_character_have_names_and_places(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    parts = [wire.TokenLogprob.of(n, "é€".encode()[n : n + 1], -1.0) for n in range(5)]
    logged = tuple(wire.PositionLogprobs(token=one, top=(one, parts[0])) for one in parts)
    engine.script = (delta("é€", logprobs=logged), finished())
    told = (await ask(api, logprobs=2)).json()["choices"][0]["logprobs"]
    assert told["tokens"] == [f"bytes:\\x{byte:02x}" for byte in "é€".encode()]
    assert told["text_offset"] == [0, 0, 1, 1, 1]
    assert [len(one) for one in told["top_logprobs"]] == [1, 2, 2, 2, 2]


async def test_parameters_reach_the_wire(api: AsyncClient, engine: ScriptedEngine) -> None:
    await ask(api, max_tokens=5, stop=["a"], temperature=0.5, top_k=-1, best_of=1, user="u")
    sent = engine.generates[0]
    assert (sent.max_tokens, sent.stop) == (5, ("a",))
    assert (sent.sampling.temperature, sent.sampling.top_k) == (0.5, 0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": 5}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": ["a"] * 33}, "prompt"),
        ({"n": 33}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": True}, "logprobs"),
        ({"prompt": [1], "echo": True}, "echo"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"prompt": [1], "suffix": "b"}, "suffix"),
        ({"suffix": "b", "echo": True}, "echo"),
        ({"ignore_eos": True}, "ignore_eos"),
    ],
)
async def test_a_bad_field_is_named(api: AsyncClient, fields: dict[str, Any], param: str) -> None:
    response = await ask(api, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_a_failure_in_mid_stream_is_an_error_chunk(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    broken = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke.")
    engine.script = (delta("Hel"), broken)
    last = chunks_in(await lines_of(await ask(api, stream=True)))[-1]
    assert last["error"]["code"] == "engine_error"

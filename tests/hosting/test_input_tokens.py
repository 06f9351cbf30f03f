"""POST /v1/responses/input_tokens: the length of an input, counted without a generation."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from engine import wire
from hosting.models import Generation
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_api_responses import CUSTOM, FUNCTION

pytestmark = pytest.mark.usefixtures("model")


async def count(api: AsyncClient, **fields: Any) -> HttpResponse:
    body = {"model": "demo", "input": "Hi", **fields}
    return await api.post("/v1/responses/input_tokens", body, content_type="application/json")


async def test_what_an_answer_would_read_is_counted(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    response = await count(api, instructions="Be brief.", tools=[FUNCTION, CUSTOM])
    assert response.json() == {"object": "response.input_tokens", "input_tokens": 7}
    (counted,) = engine.counted
    assert counted.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    )
    assert [tool["function"]["name"] for tool in counted.tools] == ["add", "apply_patch"]
    assert not await Generation.objects.aexists()


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "gone"}, 404, "model"),
        ({"input": []}, 400, "input"),
        ({"tools": [{"type": "function"}]}, 400, "tools[0].name"),
        ({"previous_response_id": "resp_1"}, 400, "previous_response_id"),
    ],
)
async def test_it_refuses_as_answering_does(
    api: AsyncClient, fields: dict[str, Any], status: int, param: str
) -> None:
    response = await count(api, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


async def test_what_intake_refuses_is_named_as_it_is_here(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.INVALID_VALUE, detail="No.", param="messages")
    response = await count(api)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "input")

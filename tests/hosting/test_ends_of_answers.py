"""What a body says of its answer's end besides a length, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from engine import wire
from hosting.models import Generation
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine, delta

pytestmark = pytest.mark.usefixtures("model")
ANSWERING = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


async def ask(api: AsyncClient, route: str, **fields: Any) -> Any:
    return await api.post(route, GOOD[route] | fields, content_type="application/json")


@pytest.mark.parametrize("route", list(GOOD))
@pytest.mark.parametrize(("given", "sent"), [(2.5, 2.5), (86_400, 86_400), (None, None)])
async def test_a_deadline_goes_with_the_request(
    api: AsyncClient, engine: ScriptedEngine, route: str, given: float | None, sent: float | None
) -> None:
    await ask(api, route, deadline_seconds=given)
    assert [one.deadline_seconds for one in engine.generates] == [sent]


@pytest.mark.parametrize("route", ANSWERING)
async def test_a_deadline_that_passes_is_an_error_wherever_it_comes(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    passed = wire.Failed(code=wire.Code.DEADLINE_EXCEEDED, detail="The deadline has passed.")
    engine.script = (delta("Hel"), passed)
    whole = await ask(api, route, deadline_seconds=1)
    assert whole.status_code == 503
    assert "deadline has passed" in whole.json()["error"]["message"]
    stream = await ask(api, route, deadline_seconds=1, stream=True)
    text = b"".join([part async for part in stream.streaming_content]).decode()
    assert stream.status_code == 200
    assert text.index("Hel") < text.index("deadline has passed")


@pytest.mark.parametrize("route", ANSWERING)
async def test_who_waits_beyond_the_deadline_is_told_in_the_stream(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    engine.is_busy = True
    stream = await ask(api, route, deadline_seconds=0.001, stream=True)
    engine.is_busy = False
    text = b"".join([part async for part in stream.streaming_content]).decode()
    assert "waited beyond its deadline" in text
    assert "Hello" not in text


async def test_the_description_names_the_deadline(api: AsyncClient) -> None:
    shapes = (await api.get("/v1/openapi.json")).json()["components"]["schemas"]
    told = [name for name, one in shapes.items() if "deadline_seconds" in one.get("properties", ())]
    assert len(told) == len(GOOD)


@pytest.mark.parametrize("route", ANSWERING)
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ignore_eos", True, "The end of an answer cannot be ignored."),
        ("min_tokens", 5, "An answer cannot be kept from ending early."),
    ],
)
async def test_an_end_that_cannot_be_had_is_refused_by_name(
    api: AsyncClient, route: str, field: str, value: Any, message: str
) -> None:
    answer = await ask(api, route, **{field: value})
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert message in error["message"]
    assert field in (error["param"] if route != MESSAGES else error["message"])
    assert not await Generation.objects.aexists()


@pytest.mark.parametrize("route", ANSWERING)
@pytest.mark.parametrize(
    "fields",
    [{"ignore_eos": False, "min_tokens": 0}, {"ignore_eos": None, "min_tokens": None}],
)
async def test_the_usual_end_may_be_asked_for(
    api: AsyncClient, engine: ScriptedEngine, route: str, fields: dict[str, Any]
) -> None:
    assert (await ask(api, route, **fields)).status_code == 200

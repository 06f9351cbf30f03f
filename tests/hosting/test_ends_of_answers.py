"""What a body says of its answer's end besides a length, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from hosting.models import Generation
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
ANSWERING = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


async def ask(api: AsyncClient, route: str, **fields: Any) -> Any:
    return await api.post(route, GOOD[route] | fields, content_type="application/json")


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

"""What would change an answer and cannot be had is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from hosting.models import Generation
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_ends_of_answers import ANSWERING, MESSAGES, ask

pytestmark = pytest.mark.usefixtures("model", "engine")
OPENAI = [route for route in ANSWERING if route != MESSAGES]
CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("route", "field", "value"),
    [
        *((route, "stop_token_ids", [151645]) for route in OPENAI),
        *((route, "allowed_token_ids", [1, 2]) for route in OPENAI),
        *((route, "bad_words", ["fire"]) for route in OPENAI),
        *((route, "prompt_logprobs", 1) for route in OPENAI),
        (CHAT, "modalities", ["text", "audio"]),
        (CHAT, "chat_template", "{{ messages[0].content }}"),
        (CHAT, "documents", [{"text": "Fires are warm."}]),
    ],
)
async def test_a_field_that_cannot_be_honoured_is_refused_by_name(
    api: AsyncClient, route: str, field: str, value: Any
) -> None:
    answer = await ask(api, route, **{field: value})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_parameter")
    assert error["param"] == field
    assert not await Generation.objects.aexists()


@pytest.mark.parametrize("route", OPENAI)
async def test_what_is_as_usual_may_be_said(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    usual = {
        "stop_token_ids": [],
        "allowed_token_ids": None,
        "bad_words": [],
        "prompt_logprobs": None,
        "modalities": ["text"],
        "documents": [],
    }
    assert (await ask(api, route, **usual)).status_code == 200

"""top_p from 0 to 1 in each dialect, as OpenAI and Anthropic describe it."""

from __future__ import annotations

import pytest

from tests.hosting.conftest import KeyedClient
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")


@pytest.mark.parametrize("route", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
async def test_a_top_p_of_nothing_reaches_the_wire(
    api: KeyedClient, engine: ScriptedEngine, route: str
) -> None:
    body = GOOD[route] | {"top_p": 0}
    assert (await api.post(route, body, content_type="application/json")).status_code == 200
    assert engine.generates[0].sampling.top_p == 0

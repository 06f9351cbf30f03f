"""Stop strings: as many in each dialect. Autocompletion sends one for each token of its form."""

from __future__ import annotations

import pytest

from tests.hosting.conftest import KeyedClient
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
FIELDS = [
    (CHAT, "stop"),
    (COMPLETIONS, "stop"),
    (RESPONSES, "stop"),
    (MESSAGES, "stop_sequences"),
]


@pytest.mark.parametrize(("route", "field"), FIELDS)
async def test_sixteen_reach_the_wire_and_more_are_refused_by_name(
    api: KeyedClient, engine: ScriptedEngine, route: str, field: str
) -> None:
    stops = [f"<|{number}|>" for number in range(17)]
    body = GOOD[route] | {field: stops[:16]}
    assert (await api.post(route, body, content_type="application/json")).status_code == 200
    assert engine.generates[0].stop == tuple(stops[:16])
    response = await api.post(route, body | {field: stops}, content_type="application/json")
    assert response.status_code == 400
    assert field in response.content.decode()

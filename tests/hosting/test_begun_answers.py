"""A conversation that ends with the assistant's own words: which dialects let it go on."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import AsyncClient

from tests.hosting.hostile_requests import CHAT, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
BEGUN = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "In Par"}]
ENDED = [*BEGUN, {"role": "user", "content": "And?"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = [BEGUN[0], {"role": "assistant", "content": "a", "tool_calls": [CALL]}]
TOOL = {"type": "function", "function": {"name": "f"}}


async def ask(api: AsyncClient, route: str, **fields: Any) -> Any:
    body = {"model": "demo", "max_tokens": 5, **fields}
    return await api.post(route, body, content_type="application/json")


@pytest.mark.parametrize(
    ("route", "fields", "continues"),
    [
        (CHAT, {"messages": BEGUN}, True),
        (CHAT, {"messages": BEGUN, "continue_final_message": True}, True),
        (CHAT, {"messages": BEGUN, "continue_final_message": False}, False),
        (CHAT, {"messages": BEGUN, "response_format": {"type": "json_object"}}, False),
        (CHAT, {"messages": BEGUN, "tools": [TOOL], "tool_choice": "required"}, False),
        (CHAT, {"messages": ENDED}, False),
        (CHAT, {"messages": CALLED}, False),
        (CHAT, {"messages": [BEGUN[0], {"role": "assistant", "content": " "}]}, False),
        (MESSAGES, {"messages": BEGUN}, True),
        (MESSAGES, {"messages": ENDED}, False),
        (MESSAGES, {"messages": [*BEGUN, {"role": "system", "content": "Hm."}]}, False),
        (RESPONSES, {"input": BEGUN}, False),
    ],
)
async def test_the_last_words_are_continued_where_they_may_be(
    api: AsyncClient, engine: ScriptedEngine, route: str, fields: dict[str, Any], continues: bool
) -> None:
    assert (await ask(api, route, **fields)).status_code == 200
    assert engine.generates[0].continues_last is continues


async def test_a_wish_that_cannot_be_met_is_refused(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    answer = await ask(api, CHAT, messages=ENDED, continue_final_message=True)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "continue_final_message"


async def test_tokens_of_a_begun_answer_are_counted_as_such(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    await ask(api, f"{MESSAGES}/count_tokens", messages=BEGUN)
    assert engine.counted[0].continues_last

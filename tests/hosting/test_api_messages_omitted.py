"""POST /v1/messages where the thoughts are not to be shown: they travel sealed."""

from __future__ import annotations

import pytest
from django.test import AsyncClient

from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_api_messages import CALLS, HELLO, ask, events_of

pytestmark = pytest.mark.usefixtures("model")


async def test_thoughts_that_are_to_be_omitted_come_back_in_their_signature(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = CALLS
    omitted = {"thinking": {"type": "adaptive", "display": "omitted"}}
    events = await events_of(await ask(api, stream=True, **omitted))
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    blocks = (await ask(api, **omitted)).json()["content"]
    assert (blocks[0]["type"], blocks[0]["thinking"]) == ("thinking", "")
    assert deltas[0] == {"type": "signature_delta", "signature": blocks[0]["signature"]}
    assert deltas[1]["type"] == "text_delta"

    await ask(api, messages=[*HELLO, {"role": "assistant", "content": blocks[:2]}, *HELLO])
    thought = (engine.generates[-1].messages or ())[1]
    assert thought["reasoning_content"] == "Let me look."
    assert thought["content"] == "I read them."

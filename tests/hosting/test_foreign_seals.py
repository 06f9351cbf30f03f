"""Thoughts that another server has sealed, or that were damaged on the way, count as none."""

from __future__ import annotations

import pytest
from django.test import AsyncClient

from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_api_messages import HELLO, ask
from tests.hosting.test_api_responses import whole

pytestmark = pytest.mark.usefixtures("model")


@pytest.mark.parametrize("sealed", ["gAAAAB", "hearth-?", "hearth-\u00e9", "hearth-/w=="])
async def test_what_cannot_be_unsealed_is_passed_over(
    api: AsyncClient, engine: ScriptedEngine, sealed: str
) -> None:
    thoughts = {"type": "reasoning", "summary": [], "encrypted_content": sealed}
    said = {"role": "assistant", "content": "Well."}
    assert (await whole(api, [thoughts, said]))["status"] == "completed"
    (message,) = engine.generates[0].messages or ()
    assert (message["content"], message.get("reasoning_content") or "") == ("Well.", "")


@pytest.mark.parametrize("signature", ["hearth", "hearth-\u00e9", "ErUB", None, 7])
async def test_so_is_a_signature(
    api: AsyncClient, engine: ScriptedEngine, signature: object
) -> None:
    thought = {"type": "thinking", "thinking": "", "signature": signature}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Well."}]}
    assert (await ask(api, messages=[*HELLO, said, *HELLO])).status_code == 200
    message = (engine.generates[0].messages or ())[1]
    assert (message["content"], message.get("reasoning_content") or "") == ("Well.", "")

"""What a web process tells somebody while it is asked to stop is cancelled: nobody hears it."""

from __future__ import annotations

import pytest

from hosting.models import Generation
from tests.hosting.hostile_requests import CHAT, GOOD
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine
from tests.hosting.web_process import Listener, started_web, wait_until

pytestmark = pytest.mark.usefixtures("model")


@pytest.mark.parametrize("is_stream", [True, False])
def test_open_answers_are_cancelled_at_a_stop(
    redis_url: str, api_key: str, engine: ScriptedEngine, is_stream: bool
) -> None:
    engine.script = ENDLESS
    with started_web(redis_url) as (url, process):
        listener = Listener(url, api_key, {**GOOD[CHAT], "stream": is_stream})
        wait_until(lambda: bool(listener.lines if is_stream else engine.begun), "begun")
        process.terminate()
        process.wait()
        listener.thread.join()
    assert Generation.objects.get().is_cancel_requested
    wait_until(lambda: bool(engine.cancelled), "cancelled")

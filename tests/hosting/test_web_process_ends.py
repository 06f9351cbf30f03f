"""What a web process tells somebody while it is asked to stop is cancelled: nobody hears it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import httpx
import pytest

from hosting.models import Generation
from tests.hosting.hostile_requests import CHAT, GOOD
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine
from tests.hosting.web_process import started_web, wait_until

pytestmark = pytest.mark.usefixtures("model")


class Listener:
    """Asks, and hears what is said until the connection ends."""

    def __init__(self, url: str, api_key: str, body: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self._call = "POST", url + "/chat/completions"
        self._said = {"json": body, "headers": {"Authorization": f"Bearer {api_key}"}}
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self) -> None:
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream(*self._call, **self._said, timeout=60) as answer,
        ):
            for line in answer.iter_lines():
                self.lines.append(line)


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

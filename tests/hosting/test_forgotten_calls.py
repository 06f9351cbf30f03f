"""Calls of which a new Redis knows nothing: asked again, as long as no answer has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from engine import wire
from hosting.actions.generations import cancel_generation
from hosting.models import Generation
from tests.engine.transport.rig import Rig
from tests.hosting.conftest import KeyedClient
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import HELLO, ScriptedEngine
from tests.hosting.web_process import wait_until

pytestmark = pytest.mark.usefixtures("model")
ROUTES = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Redis forgot is missed at once."""
    for module, name, soon in (
        ("hub", "LOST_SECONDS", 0.05),
        ("hub", "WAITING_LOST_SECONDS", 0.05),
        ("reader", "NUDGE_SECONDS", 0.05),
        ("reader", "BLOCK_MS", 50),
    ):
        monkeypatch.setattr(import_module(f"hosting.engine_client.{module}"), name, soon)


@pytest.fixture
def forget(rig: Rig) -> Callable[[], Any]:
    """Redis loses all, but for the stream at which the intake of this test waits."""

    def lose() -> None:
        rig.redis.delete(*(key for key in rig.redis.scan_iter() if key != wire.Keys.INTAKE))

    return sync_to_async(lose)


async def ask(api: KeyedClient, route: str = CHAT, **fields: Any) -> Any:
    return await api.post(route, GOOD[route] | fields, content_type="application/json")


async def text_of(response: Any) -> str:
    return b"".join([part async for part in response.streaming_content]).decode()


async def test_what_was_forgotten_before_it_was_accepted_is_asked_again(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    engine.num_forgotten = 2
    response = await ask(api)
    assert response.status_code == 200
    asked = [one.request_id for one in engine.generates]
    assert len(asked) >= 3
    assert set(asked) == {str((await Generation.objects.aget()).pk)}


@pytest.mark.parametrize("route", ROUTES)
async def test_what_was_forgotten_while_it_waited_is_answered_as_if_nothing_was(
    api: KeyedClient, engine: ScriptedEngine, forget: Callable[[], Any], route: str
) -> None:
    undisturbed = await text_of(await ask(api, route, stream=True))
    engine.is_busy = True
    response = await ask(api, route, stream=True)
    await forget()
    engine.is_busy = False
    text = await text_of(response)
    assert "world" in text
    assert len(text.split("\n\n")) == len(undisturbed.split("\n\n"))
    assert not await Generation.objects.filter(is_cancel_requested=True).aexists()


async def test_what_was_begun_and_is_forgotten_by_all_ends_with_an_error(
    api: KeyedClient, engine: ScriptedEngine, forget: Callable[[], Any]
) -> None:
    engine.script = HELLO[:-1]
    response = await ask(api, stream=True)
    lines = response.streaming_content
    while b"world" not in await anext(lines):
        pass
    engine.is_busy = True
    await forget()
    assert "engine_unavailable" in b"".join([part async for part in lines]).decode()


@pytest.mark.parametrize("route", ROUTES)
async def test_what_was_begun_and_is_forgotten_by_all_is_503_for_who_waits_for_all_of_it(
    api: KeyedClient,
    engine: ScriptedEngine,
    forget: Callable[[], Any],
    route: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hosting.api.following.AGAIN_SECONDS", -1.0)
    engine.script = HELLO[:-1]
    asking = asyncio.create_task(ask(api, route))
    await asyncio.to_thread(wait_until, lambda: bool(engine.begun), "begun")
    engine.is_busy = True
    await forget()
    response = await asking
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert "No engine is running" in response.content.decode()


async def test_what_was_cancelled_meanwhile_is_not_asked_again(
    api: KeyedClient, engine: ScriptedEngine, forget: Callable[[], Any]
) -> None:
    engine.is_busy = True
    response = await ask(api, stream=True)
    await forget()
    await sync_to_async(cancel_generation)(await Generation.objects.aget())
    assert "error" in await text_of(response)
    assert len(engine.generates) == 1

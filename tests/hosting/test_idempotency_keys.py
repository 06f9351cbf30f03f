"""Idempotency-Key, asked in process: who starts, who follows, what is refused, what is given up."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import Quota, UsageRecord, User
from engine import wire
from hosting.actions.reconcile import reconcile
from hosting.actions.repeats import delete_old_keys
from hosting.actions.settling import settle_generation
from hosting.models import Generation, IdempotencyKey
from tests.engine.transport.rig import Rig
from tests.hosting.conftest import KeyedClient
from tests.hosting.failing_database import lost_database
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ENDLESS, HELLO, ScriptedEngine, finished
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("model")
ROUTES = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]
NUM_AT_ONCE = 12


async def ask(api: AsyncClient, route: str = CHAT, key: str = "k1", **fields: Any) -> Any:
    return await api.post(
        route,
        GOOD[route] | fields,
        content_type="application/json",
        headers={"Idempotency-Key": key},
    )


async def text_of(response: Any) -> str:
    return b"".join([part async for part in response.streaming_content]).decode()


async def settle_all() -> None:
    for row in [row async for row in Generation.objects.open()]:
        await sync_to_async(settle_generation)(str(row.pk))


async def long_unfollowed() -> None:
    before = timezone.now() - datetime.timedelta(seconds=1)
    await IdempotencyKey.objects.aupdate(followed_until=before)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_repeat_follows_the_same_generation(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    first = await ask(api, route)
    await settle_all()
    second = await ask(api, route)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json()["id"] == second.json()["id"]
    assert not first.has_header("Idempotent-Replayed")
    assert second["Idempotent-Replayed"] == "true"
    assert await Generation.objects.acount() == len(engine.generates) == 1
    assert await UsageRecord.objects.acount() == 1


@pytest.mark.parametrize("route", ROUTES)
async def test_a_repeat_may_be_a_stream_of_the_same(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    first = await text_of(await ask(api, route, stream=True))
    second = await text_of(await ask(api, route, stream=True))
    whole = await ask(api, route)
    assert first and second.count("Hello") == first.count("Hello")
    assert "Hello world" in json.dumps(whole.json())
    assert len(engine.generates) == 1


async def test_of_many_at_once_one_starts(api: AsyncClient, engine: ScriptedEngine) -> None:
    answers = await asyncio.gather(*(ask(api, n=2) for _ in range(NUM_AT_ONCE)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({json.dumps(answer.json()["choices"]) for answer in answers}) == 1
    assert len({answer.json()["id"] for answer in answers}) == 1
    replayed = [answer for answer in answers if answer.has_header("Idempotent-Replayed")]
    assert len(replayed) == NUM_AT_ONCE - 1
    assert len(engine.generates) == 2


@pytest.mark.parametrize("route", ROUTES)
async def test_another_question_under_the_same_key_is_refused(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    await ask(api, route)
    answer = await ask(api, route, temperature=0.25)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (422, "invalid_request_error")
    assert "Idempotency-Key" in error["message"]
    if route != MESSAGES:
        assert error["code"] == "idempotency_key_reused"
    assert len(engine.generates) == 1


async def test_another_address_is_another_question(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    await ask(api, CHAT)
    assert (await ask(api, MESSAGES)).status_code == 422


async def test_other_people_have_their_own_keys(
    api: AsyncClient, engine: ScriptedEngine, stranger: User
) -> None:
    secret = (await sync_to_async(create_api_key)(user=stranger, name="s"))[1]
    first, second = await ask(api), await ask(KeyedClient(secret), temperature=0.25)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "schlüssel", "a\tb"])
async def test_a_key_that_is_no_key_is_refused(api: AsyncClient, key: str) -> None:
    answer = await ask(api, key=key)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "Idempotency-Key"


async def test_what_failed_may_be_tried_again(api: AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = (wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke."),)
    assert (await ask(api)).status_code == 500
    engine.script = HELLO
    answer = await ask(api)
    assert (answer.status_code, answer.has_header("Idempotent-Replayed")) == (200, False)


async def test_what_was_refused_may_be_tried_again(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.QUEUE_FULL, detail="Full.")
    assert (await ask(api)).status_code == 503
    engine.refusal = None
    assert (await ask(api)).status_code == 200


async def test_what_redis_has_forgotten_is_begun_anew(
    api: AsyncClient, engine: ScriptedEngine, rig: Rig
) -> None:
    first = await ask(api)
    await settle_all()
    request_id = str((await Generation.objects.aget()).pk)
    rig.redis.delete(wire.Keys.request(request_id), wire.Keys.events(request_id))
    second = await ask(api)
    assert second.status_code == 200
    assert first.json()["id"] != second.json()["id"]


async def test_limits_count_it_once(api: AsyncClient, engine: ScriptedEngine, person: User) -> None:
    await Quota.objects.acreate(user=person, requests_per_minute=1)
    assert [(await ask(api)).status_code for _ in range(3)] == [200, 200, 200]
    assert (await ask(api, key="k2")).status_code == 429


async def test_a_client_that_leaves_takes_nothing_from_another(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    one, other = await ask(api, stream=True), await ask(api, stream=True)
    for response in (one, other):
        await anext(aiter(response.streaming_content))
    one.close()
    await sync_to_async(reconcile)()
    row = await Generation.objects.aget()
    assert not row.is_cancel_requested
    engine.emit(str(row.pk), finished())
    assert "[DONE]" in await text_of(other)


async def test_what_nobody_follows_is_cancelled_after_a_while(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    response = await ask(api, stream=True)
    await anext(aiter(response.streaming_content))
    await sync_to_async(wait_until)(lambda: bool(engine.begun))  # or it leaves the queue unseen
    response.close()
    await long_unfollowed()
    await sync_to_async(reconcile)()
    row = await Generation.objects.aget()
    assert row.is_cancel_requested
    assert (await IdempotencyKey.objects.aget()).followed_until is None
    await sync_to_async(wait_until)(lambda: bool(engine.cancelled))
    engine.script = HELLO
    assert (await ask(api)).json()["id"] != f"chatcmpl-{row.pk.hex}"


async def keep_alive(parts: AsyncIterator[bytes]) -> None:
    """Read until it is said, and with it, that somebody follows."""
    while b"keep-alive" not in await anext(parts):
        pass


@pytest.fixture
def _says_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.api.run.RENEW_SECONDS", 0.0)
    monkeypatch.setattr("hosting.api.run.HEARTBEAT_SECONDS", 0.05)


@pytest.mark.usefixtures("_says_so_often")
async def test_who_follows_says_so_again_and_again(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    parts = aiter((await ask(api, stream=True)).streaming_content)
    await long_unfollowed()
    await keep_alive(parts)
    assert (await IdempotencyKey.objects.aget()).followed_until > timezone.now()


@pytest.mark.usefixtures("_says_so_often")
async def test_a_database_that_is_away_for_a_moment_ends_no_answer(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    parts = aiter((await ask(api, stream=True)).streaming_content)
    with lost_database() as failed:
        await keep_alive(parts)
    assert failed
    await sync_to_async(engine.emit)(str((await Generation.objects.aget()).pk), finished())
    assert b"[DONE]" in b"".join([part async for part in parts])


async def test_keys_are_deleted_after_a_day(api: AsyncClient, engine: ScriptedEngine) -> None:
    await ask(api)
    await sync_to_async(delete_old_keys)()
    assert await IdempotencyKey.objects.aexists()
    await IdempotencyKey.objects.aupdate(created_at=timezone.now() - datetime.timedelta(days=2))
    await sync_to_async(delete_old_keys)()
    assert not await IdempotencyKey.objects.aexists()

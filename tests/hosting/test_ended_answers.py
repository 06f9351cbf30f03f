"""What has ended counts as ended, also before the ledger has come to it. No ledger runs here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db.models import Q

from accounts.models import Quota, UsageRecord, User
from engine import wire
from hosting.actions.database_threads import in_database_thread
from hosting.actions.ended import settle_ended
from hosting.models import Generation
from tests.engine.transport.rig import Rig
from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")

BODY = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}


async def ask(api: KeyedClient, **changes: Any) -> Any:
    body = {**BODY, **changes}
    return await api.post("/v1/chat/completions", body, content_type="application/json")


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "again"}], ids=["plain", "keyed"])
async def test_who_may_ask_one_thing_at_once_asks_the_next_when_it_has_the_answer(
    api: KeyedClient, person: User, engine: ScriptedEngine, headers: dict[str, str]
) -> None:
    """A script with as many workers as it may have requests was refused every eighth."""
    await Quota.objects.acreate(user=person, max_concurrent=1)
    for number in range(3):
        named = {name: f"{value}-{number}" for name, value in headers.items()}
        response = await api.post(
            "/v1/chat/completions", BODY, content_type="application/json", headers=named
        )
        assert response.status_code == 200, response.content
    assert await UsageRecord.objects.acount() == 2  # the last one waits for the ledger


async def test_as_many_workers_as_one_may_have_requests_are_never_refused(
    api: KeyedClient, person: User, engine: ScriptedEngine
) -> None:
    """While one of them settles what has ended, others end and begin, and a ledger settles too."""
    await Quota.objects.acreate(user=person, max_concurrent=4)

    async def work() -> set[int]:
        return {(await ask(api)).status_code for _ in range(20)}

    is_over = asyncio.Event()

    async def settle() -> None:
        while not is_over.is_set():
            await in_database_thread(settle_ended)(Q(user=person))

    ledger = asyncio.create_task(settle())
    assert await asyncio.gather(*(work() for _ in range(4))) == [{200}] * 4
    is_over.set()
    await ledger  # cancelled, it would leave its thread at work


async def test_what_an_answer_did_not_take_is_there_for_the_next(
    api: KeyedClient, person: User, engine: ScriptedEngine
) -> None:
    """All that an answer may take is reserved until it has ended."""
    await Quota.objects.acreate(user=person, max_concurrent=9, tokens_per_day=150)
    for _ in range(3):
        assert (await ask(api)).status_code == 200


async def test_what_still_runs_counts(
    api: KeyedClient, person: User, engine: ScriptedEngine
) -> None:
    await Quota.objects.acreate(user=person, max_concurrent=1)
    await Generation.objects.acreate(user=person, model_name="demo", kind=Generation.Kind.API)
    assert (await ask(api)).status_code == 429


async def test_what_is_no_request_is_in_nobodys_way(
    api: KeyedClient, person: User, engine: ScriptedEngine, rig: Rig
) -> None:
    await Quota.objects.acreate(user=person, max_concurrent=1)
    assert (await ask(api)).status_code == 200
    rig.redis.xadd(wire.Keys.TERMINAL, {"id": "broken"})
    assert (await ask(api)).status_code == 200

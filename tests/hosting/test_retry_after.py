"""When to come again: on every route and for every 429, 503 and 529, or that it is no use."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from django.test import AsyncClient
from django.utils import timezone

from accounts.models import Quota, User
from engine import wire
from hosting.engine_client import get_client
from hosting.models import Generation
from tests.hosting.conftest import KeyedClient
from tests.hosting.failing_database import full_disk
from tests.hosting.hostile_requests import CHAT, GOOD, MESSAGES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
Code = wire.Code
WAITS = [
    (Code.QUEUE_FULL, {"retry_seconds": 7.2}, 8),
    (Code.QUEUE_FULL, {"retry_seconds": 0.2}, 1),
    (Code.QUEUE_FULL, {"retry_seconds": 5000.0}, 60),
    (Code.QUEUE_FULL, {}, 10),
    (Code.TENANT_QUEUE_FULL, {"retry_seconds": 3.5}, 4),
    (Code.TENANT_QUEUE_FULL, {}, 5),
    (Code.MODEL_LOAD_FAILED, {}, 10),
]
ALL_CODES = [code for code in Code if code not in (Code.INVALID_VALUE, Code.MODEL_NOT_FOUND)]


async def ask(api: AsyncClient, route: str) -> Any:
    return await api.post(route, GOOD[route], content_type="application/json")


def check_told(answer: Any) -> None:
    """An honest word: seconds that SDKs believe, or that they must not come again."""
    assert answer["Content-Type"] == "application/json"
    if answer.get("x-should-retry") == "false":
        return
    assert answer["Retry-After"].isdigit()
    assert 1 <= int(answer["Retry-After"]) <= 60


def as_told(answer: Any) -> int:
    """What Codex reads in the message of a 429."""
    found = re.search(r"try again in ([\d.]+)s", answer.json()["error"]["message"])
    assert found is not None
    return round(float(found[1]))


@pytest.mark.parametrize(("code", "numbers", "seconds"), WAITS)
async def test_a_refusal_tells_what_the_queue_told(
    api: AsyncClient,
    engine: ScriptedEngine,
    code: wire.Code,
    numbers: dict[str, float],
    seconds: int,
) -> None:
    engine.refusal = wire.Refused(code=code, detail="Full.", numbers=numbers)
    for route in GOOD:
        answer = await ask(api, route)
        assert answer["Retry-After"] == str(seconds), route
        if answer.status_code == 429:
            assert as_told(answer) == seconds
        is_overload = code == Code.QUEUE_FULL
        expected = 529 if route == MESSAGES and is_overload else 503
        assert answer.status_code in (429, expected)


@pytest.mark.parametrize("code", ALL_CODES)
async def test_every_code_tells_something(
    api: AsyncClient, engine: ScriptedEngine, code: wire.Code
) -> None:
    engine.refusal = wire.Refused(code=code, detail="Because.")
    for route in GOOD:
        answer = await ask(api, route)
        if answer.status_code in (429, 503, 529):
            check_told(answer)


async def test_an_engine_that_is_long_away_is_not_back_in_ten_seconds(
    api: KeyedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.0)
    seconds = []
    for away in (0.0, 35.0, 4000.0):
        monkeypatch.setattr(type(get_client()), "seconds_without_engine", away)
        for route in GOOD:
            answer = await ask(api, route)
            assert answer.status_code == 503
            check_told(answer)
        seconds.append(int(answer["Retry-After"]))
    assert seconds == [10, 35, 60]


def test_how_long_there_was_no_engine_is_known(engine: ScriptedEngine) -> None:
    client = get_client()
    assert client.has_engine()
    assert client.seconds_without_engine < 5


async def test_a_database_that_stores_nothing_is_told_everywhere(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    for route in GOOD:
        with full_disk():
            answer = await ask(api, route)
        assert answer.status_code == 503
        check_told(answer)


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute", "max_concurrent"])
async def test_a_met_limit_is_told_everywhere(
    api: KeyedClient, engine: ScriptedEngine, person: User, limit: str
) -> None:
    await Quota.objects.acreate(user=person, **{limit: 0})
    for route in GOOD:
        answer = await ask(api, route)
        assert answer.status_code == 429
        check_told(answer)


@pytest.mark.parametrize(
    ("took", "age", "seconds"), [(30, 10, 20), (30, 29, 15), (0, 0, 1), (9000, 1, 60)]
)
async def test_who_has_too_many_hears_when_one_will_have_ended(
    api: KeyedClient, engine: ScriptedEngine, person: User, took: int, age: int, seconds: int
) -> None:
    now, second = timezone.now(), datetime.timedelta(seconds=1)
    await Quota.objects.acreate(user=person, max_concurrent=1)
    fields: dict[str, Any] = {"user": person, "kind": Generation.Kind.API, "model_name": "demo"}
    await Generation.objects.acreate(
        **fields, state="done", created_at=now - took * second, finished_at=now
    )
    await Generation.objects.acreate(**fields, created_at=now - age * second)
    answer = await ask(api, CHAT)
    assert answer.status_code == 429
    late = (timezone.now() - now).total_seconds()
    assert seconds - late - 2 <= int(answer["Retry-After"]) <= seconds + 2

"""What a script is told of its limits: on every answer, and when one is met."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import ApiKey, Quota, Spending, User
from hosting.models import Generation, HostedModel
from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ScriptedEngine

BODY = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}


async def ask(api: KeyedClient, path: str = "chat/completions", **changes: Any) -> Any:
    return await api.post(f"/v1/{path}", {**BODY, **changes}, content_type="application/json")


@pytest.fixture
def quota(person: User, model: HostedModel) -> Quota:
    return Quota.objects.create(user=person, requests_per_minute=2, tokens_per_minute=1000)


async def test_every_answer_tells_what_is_left(
    api: KeyedClient, quota: Quota, engine: ScriptedEngine
) -> None:
    response = await ask(api)
    assert response.status_code == 200
    assert response["x-ratelimit-limit-requests"] == "2"
    assert response["x-ratelimit-remaining-requests"] == "1"
    assert response["x-ratelimit-reset-requests"] in ("1m0s", "59s", "58s")
    assert response["x-ratelimit-limit-tokens"] == "1000"
    assert 0 < int(response["x-ratelimit-remaining-tokens"]) < 1000


async def test_a_stream_tells_it_before_its_first_line(
    api: KeyedClient, quota: Quota, engine: ScriptedEngine
) -> None:
    response = await ask(api, stream=True)
    assert response["x-ratelimit-remaining-requests"] == "1"
    assert b"[DONE]" in b"".join([part async for part in response.streaming_content])


async def test_anthropic_is_told_in_its_own_headers(
    api: KeyedClient, quota: Quota, engine: ScriptedEngine
) -> None:
    response = await ask(api, "messages")
    assert response["anthropic-ratelimit-requests-remaining"] == "1"
    reset = datetime.datetime.fromisoformat(response["anthropic-ratelimit-requests-reset"])
    assert reset > timezone.now()


async def test_no_limit_no_header(
    api: KeyedClient, model: HostedModel, engine: ScriptedEngine
) -> None:
    response = await ask(api)
    assert not [name for name in response.headers if "ratelimit" in name]


async def test_a_met_limit_says_how_long_to_wait(
    api: KeyedClient, quota: Quota, person: User, engine: ScriptedEngine
) -> None:
    quota.requests_per_minute = quota.max_concurrent = 1
    await quota.asave()
    await Generation.objects.acreate(user=person, kind=Generation.Kind.API, model_name="demo")
    response = await ask(api)
    error = response.json()["error"]
    assert response.status_code == 429
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "Please try again in 5.0s." in error["message"]
    assert response["Retry-After"] == "5"
    assert response["x-ratelimit-remaining-requests"] == "0"
    assert "x-should-retry" not in response


async def test_a_spent_budget_is_not_worth_a_retry(
    api: KeyedClient, quota: Quota, person: User, engine: ScriptedEngine
) -> None:
    quota.tokens_per_day = 100
    await quota.asave()
    today = timezone.now().date()
    await Spending.objects.acreate(subject=f"user:{person.pk}", day=today, tokens=99)
    response = await ask(api)
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
    assert response["x-should-retry"] == "false"
    assert 1 <= int(response["Retry-After"]) <= 86400


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"requests_per_minute": 5}, "you may send 5 a minute"),
        ({"max_concurrent": 5}, "you may have 5 at once"),
        ({"max_queued": 5}, "you may have 5 waiting"),
    ],
)
async def test_more_choices_than_there_may_ever_be_are_not_worth_a_retry(
    api: KeyedClient,
    person: User,
    model: HostedModel,
    engine: ScriptedEngine,
    limits: dict[str, int],
    told: str,
) -> None:
    await Quota.objects.acreate(user=person, **limits)
    response = await ask(api, n=6)
    message = response.json()["error"]["message"]
    assert message == f"This needs 6 requests, one for each choice of each prompt, and {told}."
    assert (response.status_code, response["x-should-retry"]) == (429, "false")
    assert "Retry-After" not in response
    assert not await Generation.objects.aexists()
    assert (await ask(api, n=5)).status_code == 200


@pytest.mark.parametrize(
    "limit", ["max_concurrent", "requests_per_minute", "tokens_per_day", "tokens_per_month"]
)
async def test_who_may_have_nothing_is_not_told_to_wait(
    api: KeyedClient, person: User, model: HostedModel, engine: ScriptedEngine, limit: str
) -> None:
    await Quota.objects.acreate(user=person, **{limit: 0})
    response = await ask(api)
    assert response.json()["error"]["message"].endswith(" An administrator can change that.")
    assert (response.status_code, response["x-should-retry"]) == (429, "false")
    assert "Retry-After" not in response


async def test_choices_share_what_a_limit_leaves(
    api: KeyedClient, person: User, model: HostedModel, engine: ScriptedEngine
) -> None:
    await Quota.objects.acreate(user=person, tokens_per_minute=1000)
    assert (await ask(api, n=3, max_tokens=4000)).status_code == 200
    budgets = [generate.budget_tokens for generate in engine.generates]
    assert budgets == [333, 333, 334]


async def test_prompts_of_one_call_share_nothing(
    api: KeyedClient, person: User, model: HostedModel, engine: ScriptedEngine
) -> None:
    await Quota.objects.acreate(user=person, tokens_per_minute=3900)
    prompts = ["x" * 2000, *(f"Hi {number}" for number in range(7))]
    body = {"model": "demo", "prompt": prompts, "max_tokens": 5}
    response = await api.post("/v1/completions", body, content_type="application/json")
    assert response.status_code == 200


async def test_choices_that_never_fit_together_are_not_worth_a_retry(
    api: KeyedClient, person: User, model: HostedModel, engine: ScriptedEngine
) -> None:
    await Quota.objects.acreate(user=person, tokens_per_minute=1000)
    long = [{"role": "user", "content": "x" * 2000}]
    refused = await ask(api, messages=long, n=3)
    assert (refused.status_code, refused["x-should-retry"]) == (429, "false")
    assert (await ask(api, messages=long)).status_code == 200


async def test_a_model_out_of_scope_is_forbidden(
    api: KeyedClient, model: HostedModel, engine: ScriptedEngine
) -> None:
    key = await ApiKey.objects.aget()
    await Quota.objects.acreate(api_key=key, allowed_models=["another"])
    response = await ask(api)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "model_not_found"


def test_the_chat_page_says_what_is_left_and_when_there_is_more(
    page: Client, quota: Quota, person: User
) -> None:
    quota.tokens_per_day = 100
    quota.save()
    today = timezone.now().date()
    Spending.objects.create(subject=f"user:{person.pk}", day=today, tokens=99)
    body = {"content": "Hello", "model": "demo"}
    response = page.post("/chat/messages", body, content_type="application/json")
    assert response.status_code == 429
    message = response.json()["error"]["message"]
    assert message.startswith("You may use 100 tokens a day; 1 is left. The next period begins")


async def test_models_are_listed_as_far_as_they_may_be_used(
    api: KeyedClient, model: HostedModel
) -> None:
    key = await ApiKey.objects.aget()
    await HostedModel.objects.acreate(name="another", path="/models/another")
    await Quota.objects.acreate(api_key=key, allowed_models=["another"])
    listed = await api.get("/v1/models")
    assert [one["id"] for one in listed.json()["data"]] == ["another"]
    found = [(await api.get(f"/v1/models/{name}")).status_code for name in ("another", "demo")]
    assert found == [200, 403]


def test_the_chat_page_uses_a_model_that_may_be_used(
    page: Client, person: User, model: HostedModel
) -> None:
    HostedModel.objects.create(name="another", path="/models/another")
    Quota.objects.create(user=person, allowed_models=["another"])
    models = page.get("/chat/models").json()["models"]
    assert [one["name"] for one in models] == ["another"]
    response = page.post("/chat/messages", {"content": "Hi"}, content_type="application/json")
    assert response.json()["conversation"]["model"] == "another"

"""A key is used for what it was made for, and its end ends what it has open."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import URLPattern, URLResolver

from accounts.keys import create_api_key, revoke_api_key
from accounts.models import ApiKey, User
from hosting.actions.database_threads import in_database_thread
from hosting.api import urls
from hosting.api.scopes import SCOPES
from hosting.models import Generation, HostedModel
from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine

BODY = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
PUBLIC = {"openapi.json", "docs", ""}


def test_every_address_of_the_api_names_its_scope() -> None:
    routes: list[URLPattern | URLResolver] = list(urls.urlpatterns)
    named = {f"v1/{route.pattern}" for route in routes if str(route.pattern) not in PUBLIC}
    assert named <= SCOPES.keys()


@pytest.mark.parametrize(("scopes", "status"), [([], 200), (["answers"], 200), (["vectors"], 403)])
async def test_a_key_is_refused_beyond_its_scopes(
    person: User, model: HostedModel, engine: ScriptedEngine, scopes: list[str], status: int
) -> None:
    _, secret = await in_database_thread(create_api_key)(user=person, name="script", scopes=scopes)
    api = KeyedClient(secret)
    response: Any = await api.post("/v1/chat/completions", BODY, content_type="application/json")
    assert response.status_code == status
    if status == 403:
        assert response.json()["error"]["code"] == "insufficient_permissions"
    assert (await api.get("/v1/models")).status_code == 200


async def test_revoking_a_key_ends_its_open_stream(
    api: KeyedClient, model: HostedModel, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    response: Any = await api.post(
        "/v1/chat/completions", BODY | {"stream": True}, content_type="application/json"
    )
    lines = response.streaming_content
    assert b"assistant" in await anext(lines)
    await in_database_thread(revoke_api_key)(await ApiKey.objects.aget())
    rest = b"".join([line async for line in lines])
    assert b'"cancelled"' in rest
    assert (await api.get("/v1/models")).status_code == 401
    assert (await Generation.objects.aget()).is_cancel_requested

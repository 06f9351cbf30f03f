"""Every way in which /v1/messages says no: Anthropic's body, a true status, honest headers."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient
from django.utils import timezone

from accounts.models import ApiKey
from engine import wire
from hosting.models import Generation
from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ScriptedEngine, delta
from tests.hosting.test_api_messages import HELLO, ask, events_of, send

pytestmark = pytest.mark.usefixtures("model")
VERSION = {"anthropic-version": "2023-06-01"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def error_of(response: HttpResponse) -> tuple[int, str, str]:
    body = response.json()
    assert (body["type"], body["request_id"]) == ("error", response["request-id"])
    assert set(body["error"]) == {"type", "message"}
    return response.status_code, body["error"]["type"], body["error"]["message"]


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "sk-wrong"}, {"Authorization": "Bearer x"}])
async def test_without_a_good_key_the_answer_is_401(person: Any, headers: dict[str, str]) -> None:
    body = {"model": "demo", "max_tokens": 5, "messages": HELLO}
    response = await send(AsyncClient(), body, **headers)
    assert error_of(response)[:2] == (401, "authentication_error")


async def test_an_expired_key_is_told_so(api: AsyncClient) -> None:
    await ApiKey.objects.aupdate(expires_at=timezone.now() - datetime.timedelta(days=1))
    assert "expired" in error_of(await ask(api))[2]


async def test_the_key_opens_in_either_header(api_key: str, engine: ScriptedEngine) -> None:
    body = {"model": "demo", "max_tokens": 5, "messages": HELLO}
    for headers in ({"x-api-key": api_key}, {"Authorization": f"Bearer {api_key}"}):
        assert (await send(AsyncClient(), body, **headers)).status_code == 200


BAD = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages.0.role"),
    ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0.source.data"),
    (
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
        "messages.0.content.0.tool_use_id",
    ),
    ({"messages": [*HELLO, {"role": "assistant", "content": [{"type": "tool_use"}]}]}, "name"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"temperature": "hot"}, "temperature"),
    ({"system": [{"type": "image"}]}, "system.0.type"),
    ({"system": 5}, "system"),
    ({"stop_sequences": "END"}, "stop_sequences"),
    ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
    ({"tools": [{"name": "", "input_schema": {}}]}, "tools.0.name"),
    ({"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "x"}}, "tool_choice"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
    ({"output_config": {"effort": "enormous"}}, "output_config.effort"),
    ({"output_config": {"effort": 3}, "thinking": {"type": "disabled"}}, "output_config.effort"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"stream": "yes"}, "stream"),
]


@pytest.mark.parametrize(("fields", "named"), BAD)
async def test_a_bad_field_is_named(api: AsyncClient, fields: dict[str, Any], named: str) -> None:
    status, kind, message = error_of(await ask(api, **fields))
    assert (status, kind) == (400, "invalid_request_error")
    assert named in message
    assert not await Generation.objects.aexists()


async def test_what_is_no_json_is_refused(api: AsyncClient) -> None:
    response = await api.post("/v1/messages", b"{", content_type="text/plain")
    assert error_of(response)[:2] == (400, "invalid_request_error")


async def test_a_body_that_is_too_big_is_413(api: AsyncClient, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    response = await ask(api, system="x" * 200)
    assert error_of(response)[:2] == (413, "request_too_large")
    assert response["x-should-retry"] == "false"


@pytest.mark.parametrize("model", ["gone", "claude-sonnet-4-5", "anthropic/gone"])
async def test_an_unknown_model_is_404(api: AsyncClient, model: str) -> None:
    assert error_of(await ask(api, model=model))[:2] == (404, "not_found_error")


async def test_an_unknown_address_speaks_the_callers_dialect(api: AsyncClient) -> None:
    response = await api.get("/v1/complete", headers=VERSION)
    assert error_of(response)[:2] == (404, "not_found_error")
    response = await api.get("/v1/models/gone", headers=VERSION)
    assert error_of(response)[:2] == (404, "not_found_error")


async def test_other_methods_are_answered_in_json(api: AsyncClient) -> None:
    assert error_of(await api.get("/v1/messages"))[0] == 405
    assert (await api.head("/v1/messages")).status_code == 405
    assert (await api.options("/v1/messages")).status_code == 200


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        (wire.Code.INVALID_VALUE, 400, "invalid_request_error"),
        (wire.Code.QUEUE_FULL, 529, "overloaded_error"),
        (wire.Code.TENANT_QUEUE_FULL, 429, "rate_limit_error"),
        (wire.Code.MODEL_LOAD_FAILED, 503, "api_error"),
    ],
)
async def test_a_refusal_of_intake_has_its_status(
    api: AsyncClient, engine: ScriptedEngine, code: wire.Code, status: int, kind: str
) -> None:
    engine.refusal = wire.Refused(code=code, detail="No.")
    response = await ask(api, stream=True)
    assert error_of(response)[:2] == (status, kind)
    assert ("Retry-After" in response) == (status != 400)


async def test_a_prompt_that_is_too_long_is_told_with_both_numbers(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.refusal = wire.Refused(
        code=wire.Code.CONTEXT_LENGTH_EXCEEDED,
        detail="Too long.",
        numbers={"prompt_tokens": 40000, "limit_tokens": 32768},
    )
    expected = "prompt is too long: 40000 tokens > 32768 maximum"
    assert error_of(await ask(api)) == (400, "invalid_request_error", expected)


async def test_a_failure_in_mid_stream_is_an_error_event(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    broken = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke.")
    engine.script = (delta("Hel"), broken)
    last = (await events_of(await ask(api, stream=True)))[-1]
    assert last["type"] == "error"
    assert last["error"] == {"type": "api_error", "message": "The model broke."}
    assert last["request_id"].startswith("req_")


async def test_without_an_engine_the_answer_is_503(
    api: KeyedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.1)
    response = await ask(api)
    assert error_of(response)[:2] == (503, "api_error")
    assert int(response["Retry-After"]) >= 10


async def test_counting_refuses_as_answering_does(api: AsyncClient, engine: ScriptedEngine) -> None:
    path = "/v1/messages/count_tokens"
    bad = await send(api, {"model": "demo", "messages": []}, path)
    assert error_of(bad)[:2] == (400, "invalid_request_error")
    gone = await send(api, {"model": "gone", "messages": HELLO}, path)
    assert error_of(gone)[:2] == (404, "not_found_error")
    engine.refusal = wire.Refused(code=wire.Code.INVALID_VALUE, detail="No.", param="messages")
    refused = await send(api, {"model": "demo", "messages": HELLO}, path)
    assert error_of(refused) == (400, "invalid_request_error", "messages: No.")


async def test_counting_without_intake_is_503(
    api: KeyedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.count_view.ADMISSION_SECONDS", 0.1)
    response = await send(api, {"model": "demo", "messages": HELLO}, "/v1/messages/count_tokens")
    assert error_of(response)[:2] == (503, "api_error")

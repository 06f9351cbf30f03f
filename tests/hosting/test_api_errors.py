"""What /v1 answers when it says no: status, OpenAI's body, headers. And nothing was started."""

from __future__ import annotations

import datetime
import gzip
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.test import AsyncClient
from django.utils import timezone

from accounts.models import ApiKey, UsageRecord
from engine import wire
from hosting.actions.settling import settle_generation
from hosting.models import Generation
from tests.hosting.conftest import KeyedClient
from tests.hosting.failing_database import full_disk
from tests.hosting.scripted_engine import ScriptedEngine, delta

pytestmark = pytest.mark.usefixtures("model")
HELLO = {"role": "user", "content": "Hi"}
GOOD = {"model": "demo", "messages": [HELLO]}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
OLD_CALL = {"role": "assistant", "function_call": {"name": "add", "arguments": "{}"}}
CUSTOM_TOOL = {"type": "custom", "custom": {"name": "patch"}}
FUNCTION_CALL = {"type": "function", "id": "c1", "function": {"name": "add", "arguments": "{}"}}
CUSTOM_CALL = {"type": "custom", "id": "c2", "custom": {"name": "patch", "input": "x"}}
CALLED = {"role": "assistant", "tool_calls": [FUNCTION_CALL, CUSTOM_CALL]}
URL = "/v1/chat/completions"


async def ask(api: AsyncClient, body: Any = None, **fields: Any) -> HttpResponse:
    data = body if body is not None else GOOD | fields
    return await api.post(URL, data, content_type="application/json")


def error_of(response: HttpResponse) -> dict[str, Any]:
    assert response["Content-Type"] == "application/json"
    error = json.loads(response.content)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer sk-hearth-wrong"},
        {"x-api-key": "nonsense"},
        {"authorization": "Basic YTpi"},
    ],
)
async def test_without_a_good_key_the_answer_is_401(person: Any, headers: dict[str, str]) -> None:
    response = await AsyncClient().post(URL, GOOD, content_type="application/json", headers=headers)
    assert response.status_code == 401
    assert error_of(response)["code"] == "invalid_api_key"
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("field", ["revoked_at", "expires_at"])
async def test_an_old_key_is_told_so(api: AsyncClient, field: str) -> None:
    await ApiKey.objects.aupdate(**{field: timezone.now() - datetime.timedelta(seconds=1)})
    response = await ask(api)
    assert response.status_code == 401
    assert error_of(response)["code"] == "key_expired"


async def test_the_other_header_opens_too(api_key: str, engine: ScriptedEngine) -> None:
    response = await AsyncClient().post(
        URL, GOOD, content_type="application/json", headers={"x-api-key": api_key}
    )
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [HELLO, {"role": "user"}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"messages": [5]}, "messages[0]"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": 9}, "n"),
        ({"seed": 2**64}, "seed"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"5": 100, "05": 100}}, "logit_bias"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
    ],
)
async def test_a_bad_field_is_named(api: AsyncClient, fields: dict[str, Any], param: str) -> None:
    response = await ask(api, **fields)
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, param)
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "invalid_value"
    assert not await Generation.objects.aexists()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "user", "content": [AUDIO]}]}, "messages[0].content[0]"),
        ({"ignore_eos": True}, "ignore_eos"),
        ({"functions": [{"name": "add", "parameters": {}}]}, "functions"),
        ({"function_call": {"name": "add"}}, "function_call"),
        ({"messages": [HELLO, OLD_CALL]}, "messages[1].function_call"),
        ({"tools": [CUSTOM_TOOL]}, "tools[0].custom"),
        ({"tool_choice": CUSTOM_TOOL}, "tool_choice.custom"),
        ({"messages": [HELLO, CALLED]}, "messages[1].tool_calls[1].custom"),
    ],
)
async def test_what_is_not_supported_is_refused_by_name(
    api: AsyncClient, fields: dict[str, Any], param: str
) -> None:
    response = await ask(api, **fields)
    error = error_of(response)
    assert (response.status_code, error["code"]) == (400, "unsupported_parameter")
    assert error["param"] == param


async def test_a_refusal_of_a_model_does_not_repeat_megabytes(api: AsyncClient) -> None:
    response = await ask(api, model="m" * 2_000_000)
    assert (response.status_code, error_of(response)["code"]) == (404, "model_not_found")
    assert len(response.content) < 300


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"text"', b"\xff", b'{"model": NaN}', b"[" * 100_000, b'{"a": "\\ud800"}'],
)
async def test_what_is_no_json_object_is_refused(api: AsyncClient, body: bytes) -> None:
    response = await ask(api, body=body)
    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_json"


async def test_a_packed_body_is_refused_by_its_header(api: AsyncClient) -> None:
    response = await api.post(
        URL,
        gzip.compress(json.dumps(GOOD).encode()),
        content_type="application/json",
        headers={"Content-Encoding": "gzip"},
    )
    assert response.status_code == 415
    assert error_of(response)["code"] == "unsupported_content_encoding"
    assert "Content-Encoding" in error_of(response)["message"]


async def test_the_content_type_does_not_matter(api: AsyncClient, engine: ScriptedEngine) -> None:
    body = json.dumps(GOOD).encode()
    response = await api.post(URL, body, content_type="application/x-www-form-urlencoded")
    assert response.status_code == 200


async def test_asking_for_an_event_stream_does_not_hide_an_error(api: AsyncClient) -> None:
    response = await api.post(
        URL, {}, content_type="application/json", headers={"accept": "text/event-stream"}
    )
    assert response.status_code == 400
    assert error_of(response)["param"] == "model"


async def test_a_body_that_is_too_big_is_413(api: AsyncClient, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    response = await ask(api, messages=[{"role": "user", "content": "x" * 1000}])
    assert response.status_code == 413
    assert error_of(response)["code"] == "request_too_large"


async def test_an_unknown_model_is_404(api: AsyncClient) -> None:
    response = await ask(api, model="../../etc/passwd")
    assert response.status_code == 404
    error = error_of(response)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize("path", ["/v1/images", "/v1/", "/v1/chat", "/v1/chat/completions/"])
async def test_an_unknown_address_is_404_in_json(api: AsyncClient, path: str) -> None:
    response = await api.post(path, {}, content_type="application/json")
    assert response.status_code == 404
    assert error_of(response)["code"] == "unknown_url"


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1//chat/completions"])
async def test_a_base_url_that_ends_with_a_slash_is_told(api: AsyncClient, path: str) -> None:
    response = await api.post(f"http://testserver{path}", GOOD, content_type="application/json")
    error = error_of(response)
    assert (response.status_code, error["code"]) == (404, "unknown_url")
    assert f"POST {path}. Two slashes" in error["message"]


async def test_it_is_told_in_anthropics_dialect_where_that_is_spoken(api: AsyncClient) -> None:
    version = {"anthropic-version": "2023-06-01"}
    response = await api.post("http://testserver//v1/messages", headers=version)
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


async def test_a_wrong_method_is_405_in_json(api: AsyncClient) -> None:
    response = await api.get(URL)
    assert response.status_code == 405
    assert error_of(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("code", "param"),
    [("context_length_exceeded", "messages"), ("model_not_found", "model"), ("queue_full", None)],
)
async def test_a_refusal_that_names_no_field_gets_the_likely_one(
    api: AsyncClient, engine: ScriptedEngine, code: str, param: str | None
) -> None:
    engine.refusal = wire.Refused(code=wire.Code(code), detail="Because.")
    assert error_of(await ask(api))["param"] == param


@pytest.mark.parametrize(
    ("code", "status", "kind", "name"),
    [
        ("invalid_value", 400, "invalid_request_error", "invalid_value"),
        (
            "context_length_exceeded", 400, "invalid_request_error", "context_length_exceeded",
        ),
        ("model_not_found", 404, "invalid_request_error", "model_not_found"),
        ("queue_full", 503, "service_unavailable_error", "server_is_overloaded"),
        ("tenant_queue_full", 429, "requests", "rate_limit_exceeded"),
        ("model_load_failed", 503, "server_error", "model_load_failed"),
        ("does_not_fit", 503, "server_error", "does_not_fit"),
        ("deadline_exceeded", 503, "server_error", "deadline_exceeded"),
        ("poison", 500, "server_error", "poison"),
        ("engine_error", 500, "server_error", "engine_error"),
    ],
)  # fmt: skip
async def test_a_refusal_of_intake_has_its_status(
    api: AsyncClient,
    engine: ScriptedEngine,
    code: str,
    status: int,
    kind: str,
    name: str,
) -> None:
    engine.refusal = wire.Refused(code=wire.Code(code), detail="Because.", param="stop")
    response = await ask(api, stream=True)
    error = error_of(response)
    assert response.status_code == status
    assert (error["type"], error["code"], error["param"]) == (kind, name, "stop")
    is_final = code in ("does_not_fit", "deadline_exceeded", "poison")
    assert response.has_header("Retry-After") == (status in (429, 503) and not is_final)
    assert (response.get("x-should-retry") == "false") == is_final


async def test_a_refused_request_is_settled_as_refused(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.CONTEXT_LENGTH_EXCEEDED, detail="9 > 5")
    await ask(api)
    row = await Generation.objects.aget()
    await _settle(row)
    await row.arefresh_from_db()
    assert (row.state, row.error_code) == ("failed", "context_length_exceeded")
    assert (await UsageRecord.objects.aget()).end == "refused"


async def test_a_full_queue_of_ones_own_says_when_to_try_again(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.TENANT_QUEUE_FULL, detail="64 of yours wait.")
    response = await ask(api)
    assert "try again in 5.0s" in error_of(response)["message"]
    assert response["Retry-After"] == "5"


async def test_a_failure_in_mid_stream_is_an_error_chunk(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (
        delta("Hel"),
        wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke."),
    )
    response = await ask(api, stream=True)
    lines = (b"".join([part async for part in response.streaming_content])).decode()
    last = lines.strip().split("\n\n")[-1]
    assert response.status_code == 200
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_error"


async def test_a_failure_without_a_stream_has_a_status(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = (wire.Failed(code=wire.Code.ENGINE_ERROR, detail="The model broke."),)
    response = await ask(api)
    assert response.status_code == 500
    assert error_of(response)["message"] == "The model broke."


async def test_without_an_engine_the_answer_is_503(
    api: KeyedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.1)
    response = await ask(api)
    assert response.status_code == 503
    assert error_of(response)["code"] == "engine_unavailable"
    assert int(response["Retry-After"]) >= 10
    assert not await Generation.objects.aexists()


async def test_without_redis_the_answer_is_503(
    api: KeyedClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.1)
    settings.REDIS_URL = "unix:///nowhere/redis.sock"
    response = await ask(api)
    assert response.status_code == 503
    assert error_of(response)["code"] == "engine_unavailable"


async def test_a_silent_intake_is_503_and_the_row_is_closed(
    api: KeyedClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.1)
    engine.is_silent = True
    response = await ask(api)
    row = await Generation.objects.aget()
    assert response.status_code == 503
    assert (row.state, row.error_code) == ("failed", "engine_unavailable")
    assert (await UsageRecord.objects.aget()).end == "failed"


async def test_longer_texts_are_waited_for_longer(
    api: KeyedClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.api.run.ADMISSION_SECONDS", 0.0)
    monkeypatch.setattr("hosting.api.run.READ_LETTERS_PER_SECOND", 1e12)
    assert (await ask(api)).status_code == 503
    monkeypatch.setattr("hosting.api.run.READ_LETTERS_PER_SECOND", 1)
    assert (await ask(api)).status_code == 200


async def test_a_full_disk_is_503_and_nothing_is_accepted(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    with full_disk():
        response = await ask(api)
    assert response.status_code == 503
    assert error_of(response)["code"] == "database_unavailable"
    assert int(response["Retry-After"]) >= 1
    assert not await Generation.objects.aexists()


async def test_an_error_of_our_own_is_json_without_details(
    api: KeyedClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("hosting.api.run.start_served", broken)
    response = await ask(api)
    assert response.status_code == 500
    assert "secret" not in response.content.decode()
    assert error_of(response)["code"] == "internal_error"


async def _settle(row: Generation) -> None:
    assert await sync_to_async(settle_generation)(str(row.pk))

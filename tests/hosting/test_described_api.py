"""Schemathesis asks every address by its description: right and wrong, with a key and without.

An address may refuse what it likes, as it has described; it may never fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hosting.models import HostedModel
from tests.hosting.chat_description import CHAT_DESCRIPTION
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.web_process import web

__all__ = ["web"]

VECTORS = ("/v1/embeddings", "/v1/rerank")
OF_FILES = ("/v1/files", "/v1/batches")  # they need a file, which no example has
ANSWERING = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)
AS_DESCRIBED = (
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
FEW = hypothesis.settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)
MANY = hypothesis.settings(FEW, max_examples=15)
MAX_DRAWN_FIELDS = 3  # beside the good ones: of many together one is nearly always refused


def operations_of(description: dict[str, Any]) -> dict[str, Any]:
    schema = schemathesis.openapi.from_dict(description)
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


API = operations_of(SchemaGenerator().get_schema(request=None, public=True))
PAGE = operations_of(CHAT_DESCRIPTION)


def right_and_wrong(operations: dict[str, Any]) -> Any:
    """Each operation in both modes; without a body there is little to get wrong."""
    cases = [
        pytest.param(one, mode, id=f"{label} {mode.value}")
        for label, one in operations.items()
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or one.body
    ]
    return pytest.mark.parametrize(("operation", "mode"), cases)


def ask_all(
    operation: Any,
    web: str,
    headers: dict[str, str],
    *,
    mode: GenerationMode = GenerationMode.POSITIVE,
    settings: hypothesis.settings = MANY,
    checks: Sequence[Any] = AS_DESCRIBED,
) -> set[int]:
    """The statuses that came. What is right is asked about something that is there."""
    came: set[int] = set()

    @settings
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            drawn = dict(list(case.body.items())[:MAX_DRAWN_FIELDS])
            case.body = drawn | GOOD.get(operation.path, {"model": "demo"})
            if drawn.get("deadline_seconds"):  # a short one passes, which is an error as asked for
                case.body["deadline_seconds"] = 3600
        response = case.call(base_url=web.removesuffix("/v1"), headers=headers)
        case.validate_response(response, checks=checks, excluded_checks=unfit(response))
        came.add(response.status_code)

    ask()
    return came


def unfit(response: Any) -> list[Any]:
    """A stream is described as text, which schemathesis takes for the shape of each event."""
    is_stream = "text/event-stream" in response.headers.get("content-type", [""])[0]
    return [response_schema_conformance] if is_stream else []


@right_and_wrong(API)
def test_the_api_never_fails(
    web: str,
    api_key: str,
    model: HostedModel,
    engine: ScriptedEngine,
    operation: Any,
    mode: GenerationMode,
) -> None:
    came = ask_all(operation, web, {"Authorization": f"Bearer {api_key}"}, mode=mode)
    assert came
    if mode is GenerationMode.POSITIVE and operation.path in ANSWERING:
        assert 200 in came


@pytest.mark.parametrize(
    "label", [label for label, one in API.items() if one.body and one.path not in OF_FILES]
)
def test_the_example_is_answered_as_it_stands(
    web: str, api_key: str, model: HostedModel, engine: ScriptedEngine, label: str
) -> None:
    [content] = API[label].definition.raw["requestBody"]["content"].values()
    body = content["example"] | {"model": model.name}
    headers = {"Authorization": f"Bearer {api_key}"}
    answer = httpx.post(web.removesuffix("/v1") + API[label].path, json=body, headers=headers)
    if API[label].path in VECTORS:  # this model makes none
        assert answer.json()["error"]["param"] == "model"
    else:
        assert answer.status_code == 200


@pytest.mark.parametrize("label", list(API))
def test_without_a_key_everything_is_refused(web: str, model: HostedModel, label: str) -> None:
    assert API[label].definition.raw["security"] == [{"ApiKey": []}]
    assert ask_all(API[label], web, {}, settings=FEW) == {401}


@right_and_wrong(PAGE)
def test_the_chat_pages_own_addresses_never_fail(
    web: str,
    page: Client,
    model: HostedModel,
    engine: ScriptedEngine,
    operation: Any,
    mode: GenerationMode,
) -> None:
    page.get("/")
    cookies = {name: one.value for name, one in page.cookies.items()}
    token = next(value for name, value in cookies.items() if "csrf" in name)
    headers = {
        "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
        "X-CSRFToken": token,
    }
    came = ask_all(operation, web, headers, mode=mode, checks=[not_a_server_error])
    assert came
    assert not came & {401, 403}

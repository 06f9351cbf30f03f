"""What is wrong is refused with the right status and body, and nobody else notices."""

from __future__ import annotations

import dataclasses
import http.client
import json
from typing import Any

import pytest
from openai import OpenAI

from tests.flow.asking import ask_all, fresh_prompt, start_all
from tests.stack import Stack

pytestmark = pytest.mark.stack
PATH = "/v1/chat/completions"
NUM_STREAMS = 8
LONG = 400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`change` replaces fields of a good request; `body` replaces all of it."""

    name: str
    status: int
    code: str
    change: dict[str, Any] = dataclasses.field(default_factory=dict)
    body: bytes | None = None
    key: str | None = "good"
    param: str | None = None


def field(name: str, value: Any, *, code: str = "invalid_value", param: str | None = None) -> Case:
    return Case(
        name=f"{name}={str(value)[:30]}",
        status=400,
        code=code,
        change={name: value},
        param=param or name,
    )


CASES = [
    Case(name="no key", status=401, code="invalid_api_key", key=None),
    Case(name="wrong key", status=401, code="invalid_api_key", key="sk-hearth-nonsense"),
    Case(name="revoked key", status=401, code="key_expired", key="revoked"),
    Case(name="no JSON", status=400, code="invalid_json", body=b"{"),
    Case(name="not an object", status=400, code="invalid_json", body=b"[1]"),
    Case(name="half a character", status=400, code="invalid_json", body=b'{"model": "\xff"}'),
    Case(name="deep nesting", status=400, code="invalid_json", body=b"[" * 100_000),
    Case(
        name="unknown model",
        status=404,
        code="model_not_found",
        change={"model": "nobody"},
        param="model",
    ),
    Case(
        name="a path for a model",
        status=404,
        code="model_not_found",
        change={"model": "../../../etc"},
        param="model",
    ),
    field("messages", []),
    field("messages", "hello"),
    field("messages", [{"role": "user"}], param="messages"),
    field("messages", [{"role": "wizard", "content": "hello"}], param="messages"),
    field("messages", [{"role": "user", "content": "a " * 40_000}], code="context_length_exceeded"),
    field("temperature", -1),
    field("temperature", "hot"),
    field("top_p", 2),
    field("max_tokens", 0),
    field("max_tokens", -5),
    field("n", 0),
    field("stop", [1]),
    field("stop", ["a"] * 100),
    field("logit_bias", {"99999999": 1}),
    field("logit_bias", {"x": 1}),
    field("seed", "x"),
    field("stream", "maybe"),
]


def post(stack: Stack, case: Case, key: str | None, model: str) -> tuple[int, dict[str, Any]]:
    good = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    body = case.body if case.body is not None else json.dumps({**good, **case.change}).encode()
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
    try:
        connection.request("POST", PATH, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def fault_of(case: Case, status: int, body: dict[str, Any]) -> str | None:
    """What is wrong with an answer to bad input, or None."""
    error = body.get("error", {})
    if set(error) != {"message", "type", "param", "code"} or not error["message"]:
        return f"{case.name}: {status} {body}"
    has_param = case.param is None or str(error["param"]).startswith(case.param)
    if (status, error["code"]) != (case.status, case.code) or not has_param:
        return f"{case.name}: {status} {error}"
    return None


def revoked_key(stack: Stack) -> str:
    key = stack.create_api_key("revoked")
    stack.manage(
        "shell",
        "--no-imports",
        "-c",
        "from accounts.keys import *; from accounts.models import *; "
        "revoke_api_key(ApiKey.objects.get(name='revoked'))",
    )
    return key


def test_bad_input_is_refused_and_eight_streams_run_on(
    stack: Stack, client: OpenAI, api_key: str, endless: str
) -> None:
    prompts = [fresh_prompt() for _ in range(NUM_STREAMS)]
    undisturbed = ask_all(client, endless, prompts, max_tokens=LONG)
    keys = {"good": api_key, "revoked": revoked_key(stack)}
    running = start_all(client, endless, prompts, max_tokens=LONG)
    for one in running:
        one.wait_for_chunks(5)
    answers = [
        (case, *post(stack, case, keys.get(case.key or "", case.key), endless)) for case in CASES
    ]
    assert [one.text() for one in running] == undisturbed
    faults = [fault for answer in answers if (fault := fault_of(*answer))]
    assert not faults, "\n".join(faults)


def test_an_unknown_address_under_v1_is_told_in_json(stack: Stack, api_key: str) -> None:
    status, body = stack.get("/v1/nothing", Authorization=f"Bearer {api_key}")
    assert status == 404
    assert json.loads(body)["error"]["code"] == "unknown_url"

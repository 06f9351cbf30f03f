"""What is wrong is refused with the right status and body, and nobody else notices."""

from __future__ import annotations

import collections
import dataclasses
import http.client
import json
import math
from typing import Any

import pytest
from openai import OpenAI

from tests.flow.asking import start_all, sure_answers
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


def no_json(name: str, value: Any) -> Case:
    """Python writes it, JSON does not know it: the whole body is refused."""
    return Case(name=f"{name}={value}", status=400, code="invalid_json", change={name: value})


USER = {"role": "user", "content": "hello"}


def message(**changes: Any) -> list[dict[str, Any]]:
    return [USER | changes]


def tool(**function: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": function}]


ENVELOPE = [
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
    no_json("temperature", math.nan),
    no_json("temperature", math.inf),
    no_json("top_p", math.nan),
    no_json("min_p", math.nan),
    no_json("presence_penalty", math.nan),
    no_json("repetition_penalty", math.inf),
    no_json("logit_bias", {"1": math.nan}),
]
# Whatever is wrong, the answer names the field.
FIELDS = [
    field("messages", []),
    field("messages", None),
    field("messages", "hello"),
    field("messages", [None]),
    field("messages", [{"role": "user"}], param="messages"),
    field("messages", message(role="wizard"), param="messages"),
    field("messages", message(role=7), param="messages"),
    field("messages", message(content=7), param="messages"),
    field("messages", message(content=[{"type": "text"}]), param="messages"),
    field("messages", message(content=[{"type": "smell", "text": "x"}]), param="messages"),
    field("messages", message(content="a " * 40_000), code="context_length_exceeded"),
    field("temperature", -1),
    field("temperature", 2.1),
    field("temperature", "hot"),
    field("temperature", "NaN"),
    field("temperature", [0.5]),
    field("temperature", 10**400),
    field("top_p", 2),
    field("top_p", -0.1),
    field("top_p", {}),
    field("top_k", 10**9),
    field("top_k", 4097),
    field("top_k", -2),
    field("top_k", 1.5),
    field("top_k", "many"),
    field("min_p", 1.5),
    field("min_p", -0.5),
    field("presence_penalty", 3),
    field("frequency_penalty", -3),
    field("frequency_penalty", "often"),
    field("repetition_penalty", 0),
    field("repetition_penalty", -1),
    field("max_tokens", 0),
    field("max_tokens", -5),
    field("max_tokens", 1.5),
    field("max_tokens", "many"),
    field("max_tokens", 10**30),
    field("max_completion_tokens", 0),
    field("n", 0),
    field("n", -1),
    field("n", "two"),
    field("stop", [1]),
    field("stop", [None]),
    field("stop", 7),
    field("stop", {"a": 1}),
    field("stop", ["a"] * 100),
    field("stop", ["x" * 1_000_000]),
    field("stop", "x" * 1_000_000),
    field("stop", ["x"] * 100_000),
    field("logit_bias", {"99999999": 1}),
    field("logit_bias", {"4096": 1}),
    field("logit_bias", {"-1": 1}),
    field("logit_bias", {"x": 1}),
    field("logit_bias", {"1": 101}),
    field("logit_bias", {"1": "much"}),
    field("logit_bias", [1]),
    field("seed", "x"),
    field("seed", 1.5),
    field("seed", 2**63),
    field("stream", "maybe"),
    field("top_logprobs", 21),
    field("top_logprobs", -1),
    field("tools", "all"),
    field("tools", [None]),
    field("tools", tool(), param="tools"),
    field("tools", tool(name=""), param="tools"),
]
CASES = ENVELOPE + FIELDS


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
    prompts, undisturbed = sure_answers(client, endless, NUM_STREAMS, max_tokens=LONG)
    keys = {"good": api_key, "revoked": revoked_key(stack)}
    pending, faults = collections.deque(CASES), []
    while pending:
        running = start_all(client, endless, prompts, max_tokens=LONG)
        is_first = True  # on a busy machine they may have ended when all have begun
        while pending and (is_first or all(one.is_running for one in running)):
            is_first, case = False, pending.popleft()
            key = keys.get(case.key or "", case.key)
            faults.append(fault_of(case, *post(stack, case, key, endless)))
        assert [one.text() for one in running] == undisturbed
    assert not any(faults), "\n".join(filter(None, faults))


def test_there_are_sixty_ways_to_get_a_field_wrong() -> None:
    assert len({case.name for case in FIELDS}) >= 60


def test_an_unknown_address_under_v1_is_told_in_json(stack: Stack, api_key: str) -> None:
    status, body = stack.get("/v1/nothing", Authorization=f"Bearer {api_key}")
    assert status == 404
    assert json.loads(body)["error"]["code"] == "unknown_url"

"""A call that is sent again after something died, or many times at once, is computed once."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import uuid
from typing import Any

import httpx2
import pytest
from openai import OpenAI, OpenAIError

from tests.flow.asking import RunningAnswer, ask, fresh_prompt, request, sure_answer
from tests.stack import Stack

pytestmark = pytest.mark.stack
NUM_AT_ONCE = 50
TOKENS = 600


def keyed() -> dict[str, Any]:
    return {"extra_headers": {"Idempotency-Key": uuid.uuid4().hex}}


def generations_since(stack: Stack, last: str) -> int:
    return stack.num_rows("hosting_generation", f"created_at > '{last}'")


def newest(stack: Stack) -> str:
    stack.wait_settled()
    return str(stack.rows("SELECT max(created_at) FROM hosting_generation")[0][0])


def test_fifty_at_once_are_one(stack: Stack, api_key: str, endless: str) -> None:
    stack.wait_settled()
    before, lines = newest(stack), stack.num_usage_records
    body = request(endless, fresh_prompt(), max_tokens=16, stream=True)
    headers = {"Authorization": f"Bearer {api_key}", "Idempotency-Key": uuid.uuid4().hex}

    def post(_: int) -> tuple[str, bool]:
        url = f"{stack.base_url}/v1/chat/completions"
        answer = httpx2.post(url, json=body, headers=headers, timeout=90)
        assert answer.status_code == 200, answer.text
        return _said(answer.text), "idempotent-replayed" in answer.headers

    with concurrent.futures.ThreadPoolExecutor(NUM_AT_ONCE) as threads:
        answers = list(threads.map(post, range(NUM_AT_ONCE)))
    stack.wait_settled()
    assert len({said for said, _ in answers}) == 1
    assert sorted(replayed for _, replayed in answers) == [False] + [True] * (NUM_AT_ONCE - 1)
    assert generations_since(stack, before) == 1
    assert stack.num_usage_records == lines + 1


@pytest.mark.parametrize("victim", ["web", "engine", "intake"])
def test_a_repeat_after_a_crash_is_the_same_answer(
    stack: Stack, client: OpenAI, endless: str, victim: str
) -> None:
    (prompt, undisturbed), key = sure_answer(client, endless, max_tokens=TOKENS), keyed()
    stack.wait_settled()
    before, lines = newest(stack), stack.num_usage_records
    first = RunningAnswer(client, endless, prompt, max_tokens=TOKENS, **key)
    first.wait_for_chunks(5)
    old = stack.kill(victim)
    stack.wait_restarted(victim, old)
    again = RunningAnswer(client, endless, prompt, max_tokens=TOKENS, **key)
    assert again.text() == undisturbed
    assert again.id == first.id
    with contextlib.suppress(OpenAIError, AssertionError, OSError):
        first.text()  # with the web process its connection ended
    assert generations_since(stack, before) == 1
    stack.wait_settled()
    assert stack.num_usage_records == lines + 1


def test_who_leaves_comes_back_to_the_same_answer(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, key = fresh_prompt(), keyed()
    before = newest(stack)
    first = RunningAnswer(client, endless, prompt, max_tokens=TOKENS, **key)
    first.wait_for_chunks(5)
    first.leave()
    whole = ask(client, endless, prompt, max_tokens=TOKENS, **key)
    assert whole.startswith("".join(first.chunks))
    assert generations_since(stack, before) == 1


def _said(stream: str) -> str:
    """The text in the chunks, without what waiting adds."""
    data = [line.removeprefix("data: ") for line in stream.splitlines() if line[:5] == "data:"]
    chunks = [json.loads(one) for one in data if one != "[DONE]"]
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks)

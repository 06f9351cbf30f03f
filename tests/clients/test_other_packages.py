"""langchain-anthropic, llm and litellm, unchanged, with the demo model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.environments import run_program
from tests.stack import Stack

pytestmark = pytest.mark.stack
Results = dict[str, Any]


@pytest.fixture(scope="module")
def langchain(stack: Stack, api_key: str, demo: str) -> Results:
    return run_program(
        "with_langchain_anthropic",
        environment="anthropic",
        stack=stack,
        api_key=api_key,
        model=demo,
    )


@pytest.fixture(scope="module")
def llm(stack: Stack, api_key: str, demo: str) -> Results:
    return run_program(
        "with_llm", environment="anthropic", stack=stack, api_key=api_key, model=demo
    )


@pytest.fixture(scope="module")
def litellm(stack: Stack, api_key: str, demo: str) -> Results:
    return run_program(
        "with_litellm", environment="litellm", stack=stack, api_key=api_key, model=demo
    )


@pytest.mark.parametrize("case", ["text", "streamed"])
def test_langchain_counts_each_token_once(langchain: Results, case: str) -> None:
    assert "42" in langchain[case]["text"]
    usage = langchain[case]["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["total_tokens"] == langchain["text"]["usage"]["total_tokens"]


def test_langchain_calls_a_tool_and_reads_its_result(langchain: Results) -> None:
    (call,) = langchain["tool_and_result"]["calls"]
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    assert "21" in langchain["tool_and_result"]["text"]


def test_langchain_raises_what_fits(langchain: Results) -> None:
    assert "NotFoundError" in langchain["wrong_model"]["raised"]


@pytest.mark.parametrize("case", ["text", "streamed"])
def test_llm_reads_answers_and_usage(llm: Results, case: str) -> None:
    assert "42" in llm[case]["text"]
    assert min(llm[case]["usage"]) > 0


def test_llm_continues_a_text(llm: Results) -> None:
    assert llm["completed"]["text"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_litellm_reads_both_dialects(litellm: Results, dialect: str) -> None:
    whole, streamed = litellm[f"{dialect}_text"], litellm[f"{dialect}_streamed"]
    for answer in (whole, streamed):
        assert "42" in answer["choices"][0]["message"]["content"]
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["total_tokens"] == whole["usage"]["total_tokens"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_litellm_puts_tool_calls_together(litellm: Results, dialect: str) -> None:
    (call,) = litellm[f"{dialect}_tool"]["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert call["function"]["arguments"].replace(" ", "") == '{"city":"Paris"}'


def test_litellm_reads_thoughts(litellm: Results) -> None:
    message = litellm["anthropic_thinking"]["choices"][0]["message"]
    assert message["reasoning_content"]
    assert "42" in message["content"]


def test_litellm_continues_a_text(litellm: Results) -> None:
    assert litellm["completed"]["choices"][0]["text"]
    assert litellm["completed"]["usage"]["completion_tokens"] <= 8


@pytest.mark.parametrize(
    ("case", "raised"),
    [
        ("wrong_key", "AuthenticationError"),
        ("wrong_model", "NotFoundError"),
        ("too_long", "ContextWindowExceededError"),
    ],
)
def test_litellm_raises_what_fits(litellm: Results, case: str, raised: str) -> None:
    assert raised in litellm[case]["raised"]

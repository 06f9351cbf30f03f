"""openai of two major versions, langchain-openai and pydantic-ai, unchanged, on the demo model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.environments import run_program
from tests.stack import Stack

pytestmark = pytest.mark.stack
Results = dict[str, Any]


@pytest.fixture(scope="module", params=["openai", "openai2"])
def results(request: Any, stack: Stack, api_key: str, demo: str) -> Results:
    return run_program(
        "with_openai", environment=request.param, stack=stack, api_key=api_key, model=demo
    )


@pytest.fixture(scope="module")
def frameworks(stack: Stack, api_key: str, demo: str) -> Results:
    return run_program(
        "with_openai_frameworks", environment="openai", stack=stack, api_key=api_key, model=demo
    )


def test_chat_answers_and_calls_a_tool(results: Results) -> None:
    assert "42" in results["chat"]["choices"][0]["message"]["content"]
    (call,) = results["chat_tool"]["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"


def test_responses_answer_whole_and_streamed(results: Results) -> None:
    assert "42" in results["responses"]["text"]
    assert results["responses"]["status"] == "completed"
    streamed = results["responses_streamed"]
    assert streamed["text"] == results["responses"]["text"]
    assert streamed["kinds"][0] == "response.created"
    assert streamed["kinds"][-1] == "response.completed"


def test_responses_call_a_tool_and_read_its_result(results: Results) -> None:
    ((name, arguments),) = results["responses_tool"]["calls"]
    assert name == "get_weather"
    assert arguments.replace(" ", "") == '{"city":"Paris"}'
    assert "21" in results["responses_tool"]["text"]


def test_a_cut_response_says_why(results: Results) -> None:
    assert results["responses_cut"] == ["incomplete", "max_output_tokens"]


def test_an_input_is_counted_before_it_is_answered(results: Results) -> None:
    kind, counted, spent = results["responses_counted"]
    assert (kind, counted) == ("response.input_tokens", spent)


def test_refusals_are_the_right_exceptions(results: Results) -> None:
    assert "NotFoundError" in results["wrong_model"]["raised"]
    assert "BadRequestError" in results["too_long"]["raised"]
    assert "hearth-demo" in results["models"]


@pytest.mark.parametrize("case", ["langchain_chat", "langchain_responses"])
def test_langchain_reads_answers_and_usage(frameworks: Results, case: str) -> None:
    assert "42" in frameworks[case]["text"]
    usage = frameworks[case]["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert "cache_read" in usage["input_token_details"]


def test_langchain_calls_a_tool(frameworks: Results) -> None:
    assert frameworks["langchain_tool"] == [["get_weather", {"city": "Paris"}]]


@pytest.mark.parametrize("case", ["pydantic_chat", "pydantic_responses"])
def test_pydantic_ai_reads_answers(frameworks: Results, case: str) -> None:
    assert "42" in frameworks[case]

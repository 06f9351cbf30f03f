"""gpt-oss over the whole service: thoughts, words and calls in each dialect, and no markup."""

from __future__ import annotations

import json
import shutil
from typing import Any

import httpx2
import mlx.core as mx
import pytest
from jsonschema import validate
from openai import OpenAI

from tests.flow.asking import request
from tests.flow.conftest import warm_up
from tests.hosting.hostile_requests import MESSAGES, RESPONSES
from tests.stack import Stack
from tests.tiny_harmony import CALL_ID, END_ID, RETURN_ID, SPECIAL_TOKENS
from tests.tiny_models import HARMONY, tiny_model_path

pytestmark = pytest.mark.stack
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Köln"]}},
    "required": ["city"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": CITY, "strict": True}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("look", "go")
]
ENDS = {str(one): 50 for one in (END_ID, RETURN_ID, CALL_ID)}


@pytest.fixture(scope="module")
def model(stack: Stack, client: OpenAI) -> str:
    stack.manage("add_model", str(tiny_model_path(HARMONY)), "--name", HARMONY)
    warm_up(client, HARMONY)
    return HARMONY


def bias(word: str, amount: int) -> dict[str, int]:
    """Of every token that this word may begin with."""
    vocabulary = json.loads((tiny_model_path(HARMONY) / "tokenizer.json").read_text())["model"]
    return {
        str(token_id): amount
        for piece, token_id in vocabulary["vocab"].items()
        if word.startswith(piece)
    }


THINKS = bias("analysis", 100) | {str(END_ID): -100}
ANSWERS = bias("analysis", -100) | ENDS


def ask(stack: Stack, api_key: str, route: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"x-api-key": api_key}
    answer = httpx2.post(f"{stack.base_url}{route}", json=body, headers=headers, timeout=90)
    assert answer.status_code == 200, answer.text
    assert not any(marker in answer.text for marker in SPECIAL_TOKENS)
    said: dict[str, Any] = answer.json()
    return said


def test_thoughts_are_reasoning_whole_and_streamed(client: OpenAI, model: str) -> None:
    asked = request(model, "Hello", response_format=FORM, logit_bias=THINKS, max_tokens=24)
    answer = client.chat.completions.create(**asked)
    (choice,) = answer.choices
    thoughts = choice.message.reasoning_content  # type: ignore[attr-defined]
    assert thoughts and not choice.message.content
    assert not any(marker in thoughts for marker in SPECIAL_TOKENS)
    assert choice.finish_reason == "length"
    streamed = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        assert not chunk.choices or not chunk.choices[0].delta.content
        streamed += "".join(
            getattr(one.delta, "reasoning_content", None) or "" for one in chunk.choices
        )
    assert streamed == thoughts


def test_words_are_the_answer_whole_and_streamed(client: OpenAI, model: str) -> None:
    asked = request(model, "Hello", response_format=FORM, logit_bias=ANSWERS)
    (choice,) = client.chat.completions.create(**asked).choices
    validate(json.loads(choice.message.content or ""), CITY)
    assert choice.finish_reason == "stop"
    chunks = client.chat.completions.create(**asked, stream=True)
    deltas = [one.delta.content or "" for chunk in chunks for one in chunk.choices]
    assert "".join(deltas) == choice.message.content


def test_a_call_goes_out_and_its_result_comes_back(client: OpenAI, model: str) -> None:
    asked = request(
        model, "Where?", tools=TOOLS, tool_choice="required", logit_bias=ANSWERS, max_tokens=200
    )
    (choice,) = client.chat.completions.create(**asked).choices
    (call,) = choice.message.tool_calls or ()
    assert choice.finish_reason == "tool_calls" and not choice.message.content
    validate(json.loads(call.function.arguments), CITY)  # type: ignore[union-attr]
    assistant = choice.message.model_dump(exclude_none=True)
    assistant |= {"reasoning_content": "hm", "content": "I look."}
    asked["messages"] += [
        assistant,
        {"role": "tool", "tool_call_id": call.id, "content": "here"},
    ]
    answer = client.chat.completions.create(**asked)
    assert answer.choices[0].message.tool_calls


@pytest.fixture(scope="module")
def caller(stack: Stack, client: OpenAI, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same random model, which calls at once where that one begins with its thoughts."""
    folder = tmp_path_factory.mktemp("models") / "caller"
    shutil.copytree(tiny_model_path(HARMONY), folder)
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    head = weights["lm_head.weight"]
    for thought, call in zip(bias("analysis", 1), bias("commentary", 1), strict=False):
        head[int(call)] = head[int(thought)]
    for thought in bias("analysis", 1):
        head[int(thought)] = 0
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    stack.manage("add_model", str(folder), "--name", "caller")
    warm_up(client, "caller")
    return "caller"


def test_responses_have_thoughts_and_calls_as_items(
    stack: Stack, api_key: str, model: str, caller: str
) -> None:
    tools = [{"type": "function", "name": "look", "parameters": CITY}]
    body = {"input": "Where?", "tools": tools, "tool_choice": "required", "temperature": 0.0}
    body |= {"reasoning": {"effort": "low"}, "max_output_tokens": 100}
    (thoughts,) = ask(stack, api_key, RESPONSES, body | {"model": model})["output"]
    assert thoughts["type"] == "reasoning" and thoughts["content"][0]["text"]
    (call,) = ask(stack, api_key, RESPONSES, body | {"model": caller})["output"]
    assert (call["type"], call["name"]) == ("function_call", "look")
    validate(json.loads(call["arguments"]), CITY)


def test_messages_have_thoughts_and_calls_as_blocks(
    stack: Stack, api_key: str, model: str, caller: str
) -> None:
    tools = [{"name": "look", "input_schema": CITY}]
    messages = [{"role": "user", "content": "Where?"}]
    body = {"messages": messages, "tools": tools, "tool_choice": {"type": "any"}}
    body |= {"thinking": {"type": "adaptive"}, "max_tokens": 100, "temperature": 0.0}
    (thoughts,) = ask(stack, api_key, MESSAGES, body | {"model": model})["content"]
    assert thoughts["type"] == "thinking" and thoughts["thinking"]
    (call,) = ask(stack, api_key, MESSAGES, body | {"model": caller})["content"]
    assert (call["type"], call["name"]) == ("tool_use", "look")
    validate(call["input"], CITY)

"""Answers in a promised form, asked through the openai client of the running service."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from jsonschema import validate
from openai import BadRequestError, OpenAI
from pydantic import BaseModel, Field

from tests.flow.asking import RunningAnswer, fresh_prompt, request, start_all
from tests.stack import Stack

pytestmark = pytest.mark.stack


def marks(count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "colour": {"enum": ["red", "green"]},
            "marks": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 999},
                "minItems": count,
                "maxItems": count,
            },
        },
        "required": ["colour", "marks"],
        "additionalProperties": False,
    }


def with_schema(schema: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema, "strict": strict},
    }


SCHEMA, LONG_SCHEMA = marks(20), marks(200)
FORM, LONG_FORM = with_schema(SCHEMA, strict=True), with_schema(LONG_SCHEMA, strict=True)
CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Köln"]}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": CITY}}
    for name in ("weather", "time")
]


# Random models would think for ever
THINKS = {"chat_template_kwargs": {"enable_thinking": True}}
THINKS_NOT = {"chat_template_kwargs": {"enable_thinking": False}}


class Verdict(BaseModel):
    is_good: bool
    score: int = Field(ge=0, le=10)


def bomb() -> dict[str, Any]:
    def one(number: int) -> dict[str, Any]:
        names = [f"p{number}_{i}" for i in range(9)]
        return {"anyOf": [{"type": "object", "properties": {name: {}}} for name in names]}

    return {"allOf": [one(number) for number in range(9)]}


def test_the_client_parses_what_the_demo_model_answers(client: OpenAI, demo: str) -> None:
    answer = client.chat.completions.parse(
        **request(
            demo, "Is it good?", max_tokens=200, response_format=Verdict, extra_body=THINKS_NOT
        )
    )

    assert isinstance(answer.choices[0].message.parsed, Verdict)
    assert answer.choices[0].finish_reason == "stop"


def test_mixed_answers_are_all_valid_at_once(client: OpenAI, endless: str) -> None:
    forms: list[dict[str, Any]] = [
        {"response_format": FORM, "extra_body": THINKS_NOT},
        {"extra_body": THINKS_NOT | {"guided_regex": "[a-f]{8}"}},
        {},
        {"extra_body": THINKS_NOT | {"structured_outputs": {"choice": ["yes", "no"]}}},
    ]

    def text_of(number: int) -> str:
        asked = request(  # seeded: a random model may write blanks for long
            endless, f"Answer {number}, please.", max_tokens=1200, seed=number, **forms[number % 4]
        )
        return str(client.chat.completions.create(**asked).choices[0].message.content)

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(text_of, range(8)))

    for number in (0, 4):
        validate(json.loads(texts[number]), SCHEMA)
    for number in (1, 5):
        assert len(texts[number]) == 8 and set(texts[number]) <= set("abcdef")
    for number in (3, 7):
        assert texts[number] in ("yes", "no")


def test_the_answer_after_thinking_has_the_form(client: OpenAI, demo: str) -> None:
    answer = client.chat.completions.create(
        **request(demo, "What is 3 + 4?", max_tokens=900, response_format=FORM, extra_body=THINKS)
    )

    validate(json.loads(str(answer.choices[0].message.content)), SCHEMA)


def test_each_choice_has_the_form(client: OpenAI, endless: str) -> None:
    answer = client.chat.completions.create(
        **request(
            endless,
            "Three forms, please.",  # a random model may write blanks for long
            max_tokens=1200,
            n=3,
            seed=5,
            response_format=FORM,
            extra_body=THINKS_NOT,
        )
    )

    assert len(answer.choices) == 3
    for choice in answer.choices:
        validate(json.loads(str(choice.message.content)), SCHEMA)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"weather", "time"}),
        ({"type": "function", "function": {"name": "time"}}, {"time"}),
    ],
)
def test_a_tool_that_must_be_called_is_called(
    client: OpenAI, endless: str, choice: Any, names: set[str]
) -> None:
    asked = request(
        endless,
        fresh_prompt(),
        max_tokens=1200,
        tools=TOOLS,
        tool_choice=choice,
        parallel_tool_calls=False,
        extra_body=THINKS_NOT,
    )
    answer = client.chat.completions.create(**asked).choices[0]

    (call,) = answer.message.tool_calls or []
    assert call.type == "function" and call.function.name in names
    validate(json.loads(call.function.arguments), CITY)
    assert (answer.message.content, answer.finish_reason) == (None, "tool_calls")


def test_a_streamed_call_joins_to_the_plain_one(client: OpenAI, endless: str) -> None:
    asked = request(
        endless,
        fresh_prompt(),
        max_tokens=1200,
        tools=TOOLS,
        tool_choice="required",
        extra_body=THINKS_NOT,
    )
    plain = client.chat.completions.create(**asked).choices[0].message.tool_calls or []
    ids: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for chunk in client.chat.completions.create(**asked, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            ids.setdefault(call.index, call.id or "")
            assert call.function is not None
            arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")

    assert list(arguments.values()) == [
        call.function.arguments for call in plain if call.type == "function"
    ]
    assert all(ids.values()) and len(set(ids.values())) == len(plain)


def test_an_answer_in_a_form_outlives_a_killed_engine(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    asked = {
        "max_tokens": 2000,
        "temperature": 0.9,
        "seed": 3,
        "response_format": LONG_FORM,
        "extra_body": THINKS_NOT,
    }
    prompts = [fresh_prompt() for _ in range(2)]
    undisturbed = [one.text() for one in start_all(client, endless, prompts, **asked)]
    running = start_all(client, endless, prompts, **asked)
    for one in running:
        one.wait_for_chunks(10)
    old = stack.kill("engine")

    assert [one.text() for one in running] == undisturbed
    for text in undisturbed:
        validate(json.loads(text), LONG_SCHEMA)
    stack.wait_restarted("engine", old)


def test_a_bomb_is_refused_soon_while_others_go_on(client: OpenAI, endless: str) -> None:
    running = RunningAnswer(client, endless, fresh_prompt(), max_tokens=2000)
    running.wait_for_chunks(5)
    started = time.monotonic()

    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(
            **request(endless, "Hi", response_format=with_schema(bomb()))
        )

    assert time.monotonic() - started < 2.5
    assert caught.value.param == "response_format.json_schema.schema"
    assert len(running.text()) > 600


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"response_format": with_schema({"type": "nothing"})},
            "response_format.json_schema.schema",
        ),
        ({"extra_body": {"guided_regex": "(("}}, "guided_regex"),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": {"type": "nothing"}},
                    }
                ],
                "tool_choice": "required",
            },
            "tools[0].function.parameters",
        ),
    ],
)
def test_what_cannot_be_held_to_is_refused_by_name(
    client: OpenAI, endless: str, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(**request(endless, "Hi", **fields))

    assert caught.value.param == param

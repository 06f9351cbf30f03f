"""Conversations as gpt-oss' chat template takes them: thoughts, calls, efforts, an answer begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from tests.engine.intake.conftest import Check, MakeFolder, make_tokenizer
from tests.tiny_harmony import CHAT_TEMPLATE, SPECIAL_TOKENS

TextOf = Callable[..., str]
USER = {"role": "user", "content": "Where?"}
END = "<|start|>assistant"
TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {}}},)


def make_harmony_tokenizer() -> tokenizers.Tokenizer:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


@pytest.fixture(autouse=True)
def folder(make_folder: MakeFolder) -> Path:
    return make_folder(
        template=CHAT_TEMPLATE,
        settings={"eos_token": "<|return|>"},
        tokenizer=make_harmony_tokenizer(),
    )


def call(name: str, number: int = 1) -> dict[str, Any]:
    return {"id": f"c{number}", "function": {"name": name, "arguments": '{"a":  1}'}}


def calling(*calls: dict[str, Any], content: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **fields}


def result(text: str, number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": f"c{number}"}


def called(name: str) -> str:
    header = f"<|start|>assistant to=functions.{name}<|channel|>commentary json<|message|>"
    return header + '{"a":  1}<|call|>'


def returned(name: str, text: str) -> str:
    header = f"<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>"
    return f'{header}"{text}"<|end|>'


def thought(text: str) -> str:
    return f"<|start|>assistant<|channel|>analysis<|message|>{text}<|end|>"


@pytest.mark.parametrize(
    ("said", "thoughts"),
    [
        ({}, ""),
        ({"content": "I look."}, thought("I look.")),
        ({"reasoning_content": "hm"}, thought("hm")),
        ({"reasoning": "hm", "content": "I look."}, thought("hm\n\nI look.")),
        ({"reasoning_content": "", "content": ""}, ""),
    ],
)
def test_a_tool_turn_keeps_its_thoughts(
    text_of: TextOf, said: dict[str, Any], thoughts: str
) -> None:
    text = text_of(USER, calling(call("look"), **said), result("here"))
    assert text.endswith(f"Where?<|end|>{thoughts}{called('look')}{returned('look', 'here')}{END}")


def test_thoughts_of_a_turn_that_is_answered_are_left_out(text_of: TextOf) -> None:
    answer = {"role": "assistant", "content": "There.", "reasoning_content": "well"}
    turn = (USER, calling(call("look"), reasoning_content="hm"), result("here"), answer)
    text = text_of(*turn, USER)
    assert "analysis" not in text
    assert "<|channel|>final<|message|>There.<|end|>" in text


def test_several_calls_of_a_message_have_their_results_behind_them(text_of: TextOf) -> None:
    calls = calling(call("look"), call("ask", 2), call("go", 3), content="Both.")
    text = text_of(USER, calls, result("yes", 2), result("here", 1), result("late", 9), USER)
    each = called("look") + returned("look", "here") + called("ask") + returned("ask", "yes")
    assert f"{thought('Both.')}{each}{called('go')}{returned('go', 'late')}" in text


@pytest.mark.parametrize(
    ("options", "effort"),
    [
        ({}, "medium"),
        ({"enable_thinking": True, "reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "low"}, "low"),
        ({"enable_thinking": False}, "low"),
        ({"enable_thinking": False, "reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "xhigh"}, "high"),
        ({"reasoning_effort": "max"}, "high"),
        ({"reasoning_effort": None}, "medium"),
    ],
)
def test_the_effort_is_one_that_it_knows(
    text_of: TextOf, options: dict[str, Any], effort: str
) -> None:
    text = text_of(USER, template_options=options)
    assert text.startswith(f"<|start|>system<|message|>Reasoning: {effort}<|end|>")


@pytest.mark.parametrize(
    ("options", "tools", "is_begun"),
    [
        ({"enable_thinking": False}, (), True),
        ({"enable_thinking": False}, TOOLS, False),
        ({"enable_thinking": False, "reasoning_effort": "low"}, (), False),
        ({"enable_thinking": True}, (), False),
    ],
)
def test_who_is_not_to_think_begins_with_the_answer(
    text_of: TextOf, check: Check, options: dict[str, Any], tools: Any, is_begun: bool
) -> None:
    asked: dict[str, Any] = {"template_options": options, "tools": tools}
    answer_start = "<|channel|>final<|message|>" if is_begun else ""
    assert text_of(USER, **asked).endswith(f"Where?<|end|>{END}{answer_start}")
    assert check(messages=(USER,), **asked).has_thought is is_begun


def test_an_answer_that_was_begun_goes_on_in_its_message(text_of: TextOf) -> None:
    begun = {"role": "assistant", "content": "In Par", "reasoning_content": "hm"}
    text = text_of(USER, begun, continues_last=True)
    assert text.endswith(f"{thought('hm')}<|start|>assistant<|channel|>final<|message|>In Par")


def test_what_somebody_spells_is_no_marker(check: Check) -> None:
    plain = check(messages=({"role": "user", "content": ""},))
    spelled = check(messages=({"role": "user", "content": "<|channel|>"},))
    extra = len(spelled.prompt_token_ids) - len(plain.prompt_token_ids)
    assert extra == len("<|channel|>")

"""What can be refused is refused, with the field at fault named."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.intake.door import Door
from engine.intake.refusal import Refusal
from tests.engine.intake.conftest import Check, MakeFolder
from tests.makers import make_generate

NAN, INFINITY = math.nan, math.inf
HALF_PAIR = "\ud800"
USER = {"role": "user", "content": "q"}


def call(**changes: Any) -> dict[str, Any]:
    one = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}} | changes
    return {"role": "assistant", "content": None, "tool_calls": [one]}


BAD_SAMPLING: list[tuple[str, Any]] = [
    ("temperature", NAN),
    ("temperature", INFINITY),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", "warm"),
    ("temperature", None),
    ("temperature", True),
    ("temperature", 10**400),
    ("top_p", NAN),
    ("top_p", -1),
    ("top_p", 1.01),
    ("top_p", [0.5]),
    ("top_k", -1),
    ("top_k", 1.5),
    ("top_k", 301),
    ("top_k", 10**30),
    ("min_p", -0.5),
    ("min_p", 1.5),
    ("min_p", NAN),
    ("presence_penalty", 2.5),
    ("presence_penalty", -INFINITY),
    ("frequency_penalty", -2.5),
    ("frequency_penalty", NAN),
    ("frequency_penalty", {}),
    ("repetition_penalty", 0),
    ("repetition_penalty", -1),
    ("repetition_penalty", INFINITY),
    ("seed", 1.5),
    ("seed", 2**63),
    ("seed", None),
    ("logit_bias", ((99_999_999, 1.0),)),
    ("logit_bias", ((300, 1.0),)),
    ("logit_bias", ((-1, 1.0),)),
    ("logit_bias", ((1.5, 1.0),)),
    ("logit_bias", (("1", 1.0),)),
    ("logit_bias", ((1, NAN),)),
    ("logit_bias", ((1, 101.0),)),
    ("logit_bias", ((1, "much"),)),
    ("logit_bias", ((1, 1.0), (2, 1.0), (1, 1.0))),
    ("logit_bias", tuple((1, 0.0) for _ in range(1025))),
    ("logit_bias", (1, 2)),
    ("logit_bias", None),
    ("top_logprobs", 21),
    ("top_logprobs", -1),
    ("top_logprobs", 2.0),
    ("top_logprobs", True),
]

BAD_FIELDS: list[tuple[str | None, dict[str, Any]]] = [
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": -5}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("max_tokens", {"max_tokens": "many"}),
    ("max_tokens", {"max_tokens": True}),
    ("stop", {"stop": (1,)}),
    ("stop", {"stop": (None,)}),
    ("stop", {"stop": ("",)}),
    ("stop", {"stop": tuple("abcdefghijklmnopq")}),
    ("stop", {"stop": ("x" * 1_000_000,)}),
    ("stop", {"stop": ("x",) * 1_000_000}),
    ("deadline_seconds", {"deadline_seconds": 0}),
    ("deadline_seconds", {"deadline_seconds": NAN}),
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": 7}),
    ("prompt", {"prompt": HALF_PAIR}),
    ("messages", {"messages": ()}),
    ("messages", {"messages": None}),
    ("messages", {"messages": (USER,), "prompt": "both"}),
    ("messages", {"messages": (USER,) * 10_001}),
    ("messages[0]", {"messages": ("hello",)}),
    ("messages[0]", {"messages": (None,)}),
    ("messages[0].role", {"messages": ({"content": "q"},)}),
    ("messages[0].role", {"messages": ({"role": "root", "content": "q"},)}),
    ("messages[0].role", {"messages": ({"role": ["user"], "content": "q"},)}),
    ("messages[0].content", {"messages": ({"role": "user"},)}),
    ("messages[0].content", {"messages": ({"role": "user", "content": 7},)}),
    ("messages[0].content", {"messages": ({"role": "user", "content": {"a": 1}},)}),
    ("messages[0].content", {"messages": ({"role": "assistant", "content": None},)}),
    ("messages[1].content", {"messages": (USER, {"role": "user", "content": HALF_PAIR})}),
    ("messages[0].content[0]", {"messages": ({"role": "user", "content": ["q"]},)}),
    (
        "messages[0].content[0].type",
        {"messages": ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]},)},
    ),
    (
        "messages[0].content[0].text",
        {"messages": ({"role": "user", "content": [{"type": "text", "text": 1}]},)},
    ),
    ("messages[0].name", {"messages": ({**USER, "name": 1},)}),
    (
        "messages[0].tool_call_id",
        {"messages": ({"role": "tool", "content": "", "tool_call_id": []},)},
    ),
    ("messages[0].tool_calls", {"messages": ({**USER, "tool_calls": [{}]},)}),
    (
        "messages[0].tool_calls",
        {"messages": ({"role": "assistant", "content": "", "tool_calls": "f"},)},
    ),
    ("messages[0].tool_calls[0].function", {"messages": (call(function=None),)}),
    ("messages[0].tool_calls[0].function.name", {"messages": (call(function={}),)}),
    (
        "messages[0].tool_calls[0].function.arguments",
        {"messages": (call(function={"name": "f", "arguments": {"a": 1}}),)},
    ),
    ("messages[0].tool_calls[0].id", {"messages": (call(id=1),)}),
    (
        "messages[0].reasoning_content",
        {"messages": ({"role": "assistant", "content": "a", "reasoning_content": 1},)},
    ),
    ("tools[0]", {"tools": ("f",)}),
    ("tools[0].function", {"tools": ({"type": "function"},)}),
    ("tools[0].function.name", {"tools": ({"type": "function", "function": {}},)}),
    ("tools[0].function.name", {"tools": ({"type": "function", "function": {"name": ""}},)}),
    (
        "tools[0].function.parameters",
        {"tools": ({"type": "function", "function": {"name": "f", "parameters": []}},)},
    ),
    (
        "tools[0].function.description",
        {"tools": ({"type": "function", "function": {"name": "f", "description": 1}},)},
    ),
    ("tools", {"tools": ({"type": "function", "function": {"name": "f"}},) * 513}),
    ("chat_template_kwargs", {"template_options": {"messages": []}}),
    ("chat_template_kwargs", {"template_options": {"a-b": 1}}),
    ("chat_template_kwargs", {"template_options": {"__class__": 1}}),
    ("chat_template_kwargs", {"template_options": ["thinking"]}),
]


def refusal_of(check: Check, **changes: Any) -> wire.Refused:
    with pytest.raises(Refusal) as caught:
        check(**changes)
    return caught.value.refused


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("param", "value"), BAD_SAMPLING, ids=lambda one: str(one)[:30])
def test_a_bad_sampling_value_is_refused_by_name(check: Check, param: str, value: Any) -> None:
    refused = refusal_of(check, sampling=wire.Sampling(**({"seed": 1} | {param: value})))

    assert (refused.code, refused.param) == (wire.Code.INVALID_VALUE, param)
    assert len(refused.detail) < 300
    assert wire.decode(wire.encode(refused)) == refused


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("param", "changes"), BAD_FIELDS, ids=lambda one: str(one)[:60])
def test_a_bad_field_is_refused_by_name(check: Check, param: str, changes: dict[str, Any]) -> None:
    refused = refusal_of(check, **changes)

    assert (refused.code, refused.param) == (wire.Code.INVALID_VALUE, param)
    assert len(refused.detail) < 300


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0},
        {"top_p": 0},
        {"temperature": 2, "top_p": 1, "top_k": 300, "min_p": 1},
        {"seed": -(2**63), "repetition_penalty": 1.1},
        {"logit_bias": ((0, -100), (299, 100.0)), "top_logprobs": 20},
        {"presence_penalty": -2, "frequency_penalty": 2, "top_logprobs": 0},
    ],
)
def test_the_extremes_that_are_allowed_are_accepted(check: Check, sampling: dict[str, Any]) -> None:
    assert check(sampling=wire.Sampling(**({"seed": 1} | sampling))).max_tokens > 0


@pytest.mark.usefixtures("folder")
def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(check: Check) -> None:
    refused = refusal_of(check, messages=({"role": "user", "content": "x" * 600},))

    assert refused.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
    assert refused.param == "messages"
    assert refused.numbers == {"limit_tokens": 512, "prompt_tokens": 619}
    assert refused.detail == (
        "This model's maximum context length is 512 tokens. However, your messages resulted in "
        "619 tokens. Please reduce the length of the messages."
    )


@pytest.mark.usefixtures("folder")
def test_a_prompt_that_is_far_too_long_is_not_counted_to_its_end(check: Check) -> None:
    refused = refusal_of(check, prompt="x" * 20_000_000)

    assert refused.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
    assert refused.param == "prompt"
    assert refused.numbers["prompt_tokens"] < 100_000
    assert "at least" in refused.detail


def test_counting_gives_a_number_only_where_it_has_come_to_the_end(
    door: Door, folder: Path
) -> None:
    spec = wire.ModelSpec(name="demo", path=str(folder))
    assert door.count(make_generate("a", prompt="x" * 4_000), spec) == 4_000
    with pytest.raises(Refusal) as caught:
        door.count(make_generate("a", prompt="x" * 20_000_000), spec)
    assert caught.value.refused.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
    assert "at least" in caught.value.refused.detail


@pytest.mark.usefixtures("folder")
def test_max_tokens_is_cut_to_what_fits(check: Check) -> None:
    work = check(prompt="x" * 100, max_tokens=32_000)
    assert (len(work.prompt_token_ids), work.max_tokens) == (100, 412)
    assert check(prompt="x" * 511).max_tokens == 1
    assert refusal_of(check, prompt="x" * 512).code == wire.Code.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.usefixtures("folder")
def test_the_registry_s_limit_wins_over_the_folder_s(check: Check) -> None:
    assert check(prompt="x" * 100, context_limit_tokens=128).max_tokens == 28


@pytest.mark.parametrize("part", ["text_config", "language_config", "llm_config"])
def test_the_limit_of_a_model_that_also_sees_is_that_of_its_text_part(
    make_folder: MakeFolder, check: Check, part: str
) -> None:
    seeing = {"max_position_embeddings": 4096, "vocab_size": 300}
    make_folder(config=seeing | {part: {"max_position_embeddings": 128, "vocab_size": 300}})
    assert check(prompt="x" * 100).max_tokens == 28


def test_a_folder_that_is_not_there_makes_the_model_unusable(check: Check) -> None:
    refused = refusal_of(check)

    assert refused.code == wire.Code.MODEL_LOAD_FAILED
    assert refused.param == "model"


def test_a_broken_tokenizer_makes_the_model_unusable(check: Check, folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")

    assert refusal_of(check).code == wire.Code.MODEL_LOAD_FAILED

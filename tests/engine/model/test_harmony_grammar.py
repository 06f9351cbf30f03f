"""gpt-oss' answers held to grammars: thoughts first, then the answer or one call, as promised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import validate

from engine import wire
from engine.model.grammar import GrammarShop
from tests.engine.model.rig import Run, loaded, make_handle
from tests.engine.model.test_harmony import Told, tokens, told
from tests.fakes import make_work
from tests.tiny_harmony import CALL_ID, END_ID, RETURN_ID
from tests.tiny_models import HARMONY
from tests.waiting import wait_until

TRIP = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Köln"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
GRAMMAR = wire.Grammar(
    kind=wire.GrammarKind.JSON_SCHEMA, param="response_format", source=json.dumps(TRIP)
)
# A random model that thinks seldom, and ends what it has begun as soon as it may.
VOCABULARY = loaded(HARMONY).tokenizer.get_vocab()
THINKING = tuple((VOCABULARY[one], -12.0) for one in ("a", "an", "ana") if one in VOCABULARY)
ENDS = ((END_ID, 50.0), (RETURN_ID, 50.0), (CALL_ID, 50.0), *THINKING)
SEEDS = range(4)


def tools(*, strict: bool = False) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"type": "function", "function": {"name": name, "parameters": TRIP, "strict": strict}}
        for name in ("trip", "journey")
    )


def answered(seed: int, **changes: Any) -> tuple[Told, wire.FinishReason]:
    sampling = wire.Sampling(seed=seed, temperature=1.5, logit_bias=ENDS)
    values = {"prompt": range(30, 52), "max_tokens": 400, "model": HARMONY, "sampling": sampling}
    run = Run(make_handle(HARMONY))
    run.add(make_work("r", **(values | changes)))
    run.finish()
    end = run.ends["r"]
    assert isinstance(end, wire.Finished), end
    return told([one for one in run.events["r"] if isinstance(one, wire.Delta)]), end.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_fits_its_schema_whatever_was_thought(seed: int) -> None:
    (_, words, calls), reason = answered(seed, grammar=GRAMMAR)
    validate(json.loads(words), TRIP)
    assert not calls and reason is wire.FinishReason.STOP


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_that_must_be_is_one_and_fits(seed: int) -> None:
    choice = wire.ToolChoice(is_required=True)
    (_, _, calls), reason = answered(seed, tools=tools(), tool_choice=choice)
    ((name, arguments),) = calls
    assert name in ("trip", "journey")
    validate(json.loads(arguments), TRIP)
    assert reason is wire.FinishReason.TOOL_CALLS


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tool_that_is_named_is_called(seed: int) -> None:
    choice = wire.ToolChoice(is_required=True, name="journey", is_parallel=False)
    (_, _, calls), _ = answered(seed, tools=tools(), tool_choice=choice)
    assert [name for name, _ in calls] == ["journey"]


def follows(text: str, **changes: Any) -> bool:
    """Whether an answer may be so."""
    ends = (CALL_ID, RETURN_ID)
    ordered = GrammarShop(loaded(HARMONY).tokenizer, end_token_ids=ends).order(
        make_work("r", **changes)
    )
    assert ordered is not None
    wait_until(lambda: ordered.is_ready or ordered.rejection is not None)
    return ordered.start(tokens(text)).fault is None


THOUGHT = "<|channel|>analysis<|message|>hm {<|end|><|start|>assistant"
SAID = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
ANSWER = '<|channel|>final<|message|>{"city": "Rome", "days": 3}<|return|>'
CALL = (
    "<|channel|>commentary to=functions.trip <|constrain|>json<|message|>"
    '{"city": "Rome", "days": 3}<|call|>'
)
LATE = CALL.replace("3", "30")
WORDS = "<|channel|>final<|message|>Good day.<|return|>"
REQUIRED = {"tools": tools(), "tool_choice": wire.ToolChoice(is_required=True)}


@pytest.mark.parametrize("thoughts", ["", THOUGHT, THOUGHT * 2])
def test_thoughts_come_before_whatever_is_promised(thoughts: str) -> None:
    assert follows(thoughts + ANSWER, grammar=GRAMMAR)
    assert follows(thoughts + ANSWER, grammar=GRAMMAR, tools=tools())
    assert follows(thoughts + CALL, grammar=GRAMMAR, tools=tools())
    assert follows(thoughts + CALL, **REQUIRED)
    assert follows(thoughts + WORDS, tools=tools(strict=True))


@pytest.mark.parametrize("text", [WORDS, SAID + ANSWER, CALL, "{}", ANSWER.replace("3", "30")])
def test_what_fits_no_schema_is_no_answer(text: str) -> None:
    assert not follows(text, grammar=GRAMMAR)


@pytest.mark.parametrize("text", [WORDS, ANSWER, LATE, CALL.replace("trip", "trap")])
def test_what_is_no_call_of_a_tool_is_none(text: str) -> None:
    assert not follows(text, **REQUIRED)
    assert follows(SAID + CALL, **REQUIRED)


def test_one_call_is_the_last_message() -> None:
    assert not follows(CALL.removesuffix("<|call|>") + CALL, **REQUIRED)


def test_calls_of_strict_tools_that_need_not_be_made_are_held() -> None:
    assert follows(SAID + CALL, tools=tools(strict=True))
    assert not follows(LATE, tools=tools(strict=True))
    strict, loose = tools(strict=True)[1], tools()[0]
    assert follows(LATE, tools=(strict, loose))


def test_an_answer_that_is_begun_has_no_header() -> None:
    assert follows('{"city": "Rome", "days": 3}<|return|>', grammar=GRAMMAR, has_thought=True)
    assert not follows(ANSWER, grammar=GRAMMAR, has_thought=True)

"""Calls of strict tools that need not be made: held once they begin, and the text is free."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError, validate

from engine import wire
from tests.engine.model.rig import Run, loaded, make_handle
from tests.fakes import make_work
from tests.tiny_models import END_THINK_ID, IM_END_ID, TOOL_CALL_ID

MODEL = "tiny-qwen3"
TRIP = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Köln"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
NO_MARKERS = tuple(
    (token_id, -100.0)
    for token_id in loaded(MODEL).tokenizer.backend_tokenizer.get_added_tokens_decoder()
)
CALLS = ((TOOL_CALL_ID, 100.0), (IM_END_ID, 50.0))


def tool(name: str, *, strict: bool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": TRIP, "strict": strict}}


def ask(*tools: dict[str, Any], seed: int = 1, **changes: Any) -> wire.Work:
    """Of a random model that begins a call as soon as it may, and ends as soon as it must not."""
    values = {
        "prompt": range(30, 52),
        "max_tokens": 120,
        "tools": tools,
        "has_thought": True,
        "tool_choice": wire.ToolChoice(is_parallel=False),
        "sampling": wire.Sampling(seed=seed, temperature=1.5, logit_bias=CALLS),
    }
    return make_work("r", model=MODEL, **(values | changes))


def answer(work: wire.Work, delivered: tuple[int, ...] = ()) -> Run:
    run = Run(make_handle(MODEL))
    run.add(work, delivered=list(delivered))
    run.finish()
    return run


def calls_of(run: Run) -> list[tuple[str, str]]:
    """Names and arguments."""
    calls: dict[int, tuple[str, str]] = {}
    for event in run.events["r"]:
        if isinstance(event, wire.Delta) and event.tool_call is not None:
            name, arguments = calls.get(event.tool_call.index, ("", ""))
            calls[event.tool_call.index] = (
                name + (event.tool_call.name or ""),
                arguments + event.text,
            )
    return list(calls.values())


def is_valid(run: Run) -> bool:
    """It made one call, and that fits."""
    try:
        ((name, arguments),) = calls_of(run)
        validate(json.loads(arguments), TRIP)
    except (ValueError, ValidationError):
        return False
    return name == "trip"


def test_every_call_of_a_strict_tool_fits_its_schema() -> None:
    strict = [answer(ask(tool("trip", strict=True), seed=seed)) for seed in range(4)]
    loose = answer(ask(tool("trip", strict=False)))

    assert [is_valid(run) for run in strict] == [True] * 4
    assert not is_valid(loose)


def test_text_beside_strict_tools_is_what_it_would_be_without() -> None:
    sampling = wire.Sampling(seed=4, temperature=1.0, logit_bias=NO_MARKERS)
    free, held = (
        answer(ask(tool("trip", strict=strict), sampling=sampling, max_tokens=20))
        for strict in (False, True)
    )

    assert held.tokens("r") == free.tokens("r")
    assert len(held.tokens("r")) == 20


def test_a_call_after_thinking_and_text_is_held() -> None:
    tokenizer = loaded(MODEL).tokenizer
    said = tokenizer.encode("I think.", add_special_tokens=False)
    work = ask(tool("trip", strict=True), has_thought=False, starts_in_reasoning=True)
    run = answer(work, delivered=(*said, END_THINK_ID, *said))

    assert is_valid(run)


def test_several_calls_may_follow_each_other() -> None:
    parallel = wire.ToolChoice(is_parallel=True)
    run = answer(ask(tool("trip", strict=True), tool_choice=parallel, max_tokens=120))
    *whole, _ = calls_of(run)

    assert len(whole) > 1
    for _, arguments in whole:
        validate(json.loads(arguments), TRIP)


def test_a_resumed_call_goes_on_in_its_schema() -> None:
    work = ask(tool("trip", strict=True))
    whole = answer(work).tokens("r")

    assert whole[:12] + answer(work, delivered=tuple(whole[:12])).tokens("r") == whole


@pytest.mark.parametrize("name", ["free", "trip"])
def test_a_loose_tool_beside_a_strict_one_takes_any_object(name: str) -> None:
    opening = f'\n{{"name": "{name}", "arguments": {{"x'
    begun = loaded(MODEL).tokenizer.encode(opening, add_special_tokens=False)
    tools = (tool("free", strict=False), tool("trip", strict=True))
    run = Run(make_handle(MODEL))
    run.add(ask(*tools), delivered=[TOOL_CALL_ID, *begun])
    run.finish()

    end = run.ends["r"]
    assert isinstance(end, wire.Finished if name == "free" else wire.Failed)

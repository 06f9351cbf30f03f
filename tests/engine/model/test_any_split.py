"""The same text says the same, however tokens cut it, within characters too."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.generate import make_text_state_machine

from engine import wire
from engine.core.answer import Answer
from engine.model.detokenizer import ByteDetokenizer
from engine.model.naked_calls import NakedCalls
from engine.model.text import ModelTextStream
from engine.model.tool_calls import ToolCallReader
from tests.engine.model.rig import loaded
from tests.fakes import make_work

TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {}}},)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
NAKED = '{"name": "weather", "arguments": {"a": "} 🙂"}}'
PARTS = ("<think>", "</think>", "<tool_call>", "</tool_call>", CALL, CALL[:30], CALL[30:], NAKED)
PARTS += ("\n", " ", "Hello", "wörld 🙂", "<", "{", "[", '"', "}", "STOP", "ST")
Said = list[tuple[wire.Channel, int | None, str]]


def answered(pieces: list[bytes], **changes: Any) -> tuple[Said, Any]:
    """What each channel and call says, in order, and the ending."""
    work = make_work("r", tools=TOOLS, max_tokens=10_000, **changes)
    tokenizer = loaded("tiny-qwen3").tokenizer
    start = "reasoning" if work.starts_in_reasoning else "normal"
    stream = ModelTextStream(
        detokenizer=ByteDetokenizer(pieces, trims_space=False),
        state=make_text_state_machine(tokenizer).make_state(start),
        tool_calls=ToolCallReader(tokenizer, work),
        naked=NakedCalls(work),
        think_start=tokenizer.think_start,
    )
    answer = Answer(work, stream, end_token_ids={len(pieces)})
    said: Said = []
    for token_id in range(len(pieces) + 1):
        deltas = answer.add(token_id) if answer.ending is None else []
        for delta in deltas:
            assert isinstance(delta, wire.Delta)
            call = delta.tool_call
            if delta.text or call:
                said.append((delta.channel, call.index if call else None, delta.text))
    grouped = itertools.groupby(said, key=lambda one: one[:2])
    joined = [(*key, "".join(text for *_, text in each)) for key, each in grouped]
    return joined, answer.ending


def cut(text: str, sizes: list[int]) -> list[bytes]:
    left, pieces = text.encode(), []
    for size in itertools.cycle(sizes):
        if not left:
            return pieces
        pieces.append(left[:size])
        left = left[size:]
    return pieces


@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=8),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    stop=st.sampled_from([(), ("STOP",), ("}", "ö"), ("🙂", "\n\n")]),
    is_parallel=st.booleans(),
    starts_in_reasoning=st.booleans(),
)
def test_any_split_says_the_same(
    parts: list[str], sizes: list[int], is_parallel: bool, **changes: Any
) -> None:
    text = "".join(parts)
    changes["tool_choice"] = wire.ToolChoice(is_parallel=is_parallel)
    assert answered(cut(text, sizes), **changes) == answered(cut(text, [1]), **changes)


@pytest.mark.parametrize("after", ["Done.", "\n" + CALL, "STOP", "</tool_call>"])
def test_nothing_follows_the_only_call_also_within_its_token(after: str) -> None:
    choice = wire.ToolChoice(is_parallel=False)
    said, ending = answered([(CALL + after).encode()], tool_choice=choice, stop=("STOP",))
    assert said == [(wire.Channel.TOOL_CALL, 0, '{"city": "Köln"}')]
    assert ending.reason is wire.FinishReason.TOOL_CALLS

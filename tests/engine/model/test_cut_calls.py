"""A call that max_tokens or somebody cuts before its name is whole is shown to nobody."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.answer import Answer
from engine.model.tool_calls import ToolCallReader
from tests.engine.model.test_streamed_calls import (
    PARSERS,
    TOOLS,
    Tokenizer,
    calls_in,
    section_of,
)
from tests.engine.model.test_text import encode, stream
from tests.fakes import make_work

ARGUMENTS = {"days": 3, "note": "a long day"}


@pytest.mark.parametrize("parser_name", PARSERS)
def test_wherever_it_is_cut_no_markup_is_shown(parser_name: str) -> None:
    section = section_of(parser_name, [("weather", ARGUMENTS)])
    for cut in range(len(section)):
        reader = ToolCallReader(Tokenizer(parser_name), make_work("r", tools=TOOLS))
        pieces = reader.feed(section[:cut]) + reader.cut()
        assert {one.channel for one in pieces} <= {wire.Channel.TOOL_CALL}
        assert {one.tool_call.name for one in pieces if one.tool_call} <= {"weather", None}


@pytest.mark.parametrize("parser_name", ["mistral", "kimi_k2", "minimax_m2", "pythonic"])
def test_a_second_call_that_is_cut_leaves_the_first(parser_name: str) -> None:
    calls = [("weather", {"days": 3})] * 2
    section = section_of(parser_name, calls)
    start = section.rindex("weather")
    reader = ToolCallReader(Tokenizer(parser_name), make_work("r", tools=TOOLS))
    pieces = reader.feed(section[: start + 3]) + reader.cut()
    assert calls_in(pieces) == calls[:1]


@pytest.mark.parametrize(
    ("text", "shown"), [("I look.<tool_call>\n{", "I look."), ("a <tool", "a <tool")]
)
def test_an_answer_that_is_full_shows_what_was_said(text: str, shown: str) -> None:
    token_ids = encode(text)
    work = make_work("r", tools=TOOLS, max_tokens=len(token_ids))
    answer = Answer(work, stream(tools=TOOLS), end_token_ids={2})
    deltas = [delta for token_id in token_ids for delta in answer.add(token_id)]
    assert answer.ending is not None and answer.ending.reason is wire.FinishReason.LENGTH
    assert "".join(one.text for one in deltas if isinstance(one, wire.Delta)) == shown


def test_words_behind_a_mark_are_words_also_when_they_are_cut() -> None:
    reader = ToolCallReader(Tokenizer("json_tools"), make_work("r", tools=TOOLS))
    (piece,) = reader.feed(" opens a call") + reader.cut()
    assert piece.text == "<tool_call> opens a call"

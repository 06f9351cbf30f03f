"""Qwen's coders often forget `<tool_call>` before a call, and write `</tool_call>` behind it."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.answer import Piece
from tests.engine.model.test_streamed_calls import calls_in
from tests.engine.model.test_text import join
from tests.engine.model.test_written_markers import pieces_of

CALL = "<function=weather>\n<parameter=city>\nBonn\n</parameter>\n</function>"
MADE = ("weather", {"city": "Bonn"})


def calls_of(pieces: list[Piece]) -> list[tuple[str, object]]:
    return calls_in([piece for piece in pieces if piece.channel is wire.Channel.TOOL_CALL])


@pytest.mark.parametrize("end", ["\n</tool_call>", ""])
@pytest.mark.parametrize("said", ["", "I shall look.\n\n", "Now:\n  ", "<think>hm</think>\n\n"])
def test_a_call_without_its_marker_is_a_call(said: str, end: str) -> None:
    pieces = pieces_of("qwen3_coder", said + CALL + end)
    assert calls_of(pieces) == [MADE]
    assert join(pieces) == ("" if "think" in said else said)


@pytest.mark.parametrize(
    "between", ["\n", "\n</tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>\nAnd\n"]
)
def test_another_may_follow_it(between: str) -> None:
    assert calls_of(pieces_of("qwen3_coder", CALL + between + CALL)) == [MADE, MADE]


@pytest.mark.parametrize("text", [f"Write {CALL} to call it.", CALL.replace("weather", "rain")])
def test_words_within_a_line_or_of_no_tool_are_none(text: str) -> None:
    assert join(pieces_of("qwen3_coder", text)) == text

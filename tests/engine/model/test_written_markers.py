"""Models also write about their markers: in a call's arguments, and in an answer that explains."""

from __future__ import annotations

import json

import pytest

from engine import wire
from engine.core.answer import Piece
from engine.model.markers import with_tools
from engine.model.naked_calls import NakedCalls
from engine.model.text import ModelTextStream
from engine.model.tool_calls import ToolCallReader
from tests.engine.model.test_streamed_calls import PARSERS, TOOLS, Tokenizer, calls_in, section_of
from tests.engine.model.test_text import join, read
from tests.fakes import make_work


class Whole:
    """A tokenizer of one parser, with the same thoughts as Qwen's."""

    def __init__(self, parser_name: str) -> None:
        said = Tokenizer(parser_name)
        self.tool_parser = said.tool_parser
        self.tool_call_start, self.tool_call_end = said.tool_call_start, said.tool_call_end
        self.has_thinking = self.has_tool_calling = True
        self.think_start, self.think_end = "<think>", "</think>"
        self.structural_markers: tuple[str, ...] = ()
        self.response_transitions: dict[str, list[tuple[str, str]]] = {}


class Letters:
    """A Detokenizer whose tokens are letters."""

    def add(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


def pieces_of(parser_name: str, text: str) -> list[Piece]:
    tokenizer, work = Whole(parser_name), make_work("r", tools=TOOLS)
    stream = ModelTextStream(
        detokenizer=Letters(),
        state=with_tools(tokenizer, TOOLS).make_state(),
        tool_calls=ToolCallReader(tokenizer, work),
        naked=NakedCalls(work),
        think_start=tokenizer.think_start,
    )
    return [piece for letter in text for piece in stream.add(ord(letter))] + stream.finish(
        is_cut=False
    )


def marked(parser_name: str, section: str) -> str:
    tokenizer = Tokenizer(parser_name)
    return tokenizer.tool_call_start + section + tokenizer.tool_call_end


@pytest.mark.parametrize("parser_name", PARSERS)
def test_the_end_of_calls_within_an_argument_does_not_end_the_call(parser_name: str) -> None:
    end = Tokenizer(parser_name).tool_call_end or "</tool_call>"
    arguments = {"city": f"Köln, see {end} there", "note": f"<think>, {end}"}
    section = _section(parser_name, arguments)

    pieces = pieces_of(parser_name, marked(parser_name, section) * 2)

    assert calls_in(pieces) == [("weather", arguments)] * 2


def _section(parser_name: str, arguments: dict[str, str]) -> str:
    """As section_of makes it, which cuts at the first end marker."""
    placeholder = {name: f"A{number}Z" for number, name in enumerate(arguments)}
    section = section_of(parser_name, [("weather", placeholder)])
    for number, text in enumerate(arguments.values()):
        section = section.replace(f"A{number}Z", text)
    return section


@pytest.mark.parametrize(
    ("parser_name", "section"),
    [
        ("json_tools", '\n{"name": "weather", "arguments": {"city": "5" tall"}}\n'),
        ("qwen3_coder", "\n<function=weather>\n<parameter=city>\nBonn\n</function>\n"),
        ("minimax_m2", '<invoke name="weather"><parameter name="city">Bonn</invoke>\n'),
    ],
)
def test_a_call_whose_argument_lacks_its_end_ends_where_calls_end(
    parser_name: str, section: str
) -> None:
    pieces = pieces_of(parser_name, marked(parser_name, section) + "Done.")
    assert join(pieces) == "Done."


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["no-tools", "tools"])
def test_an_answer_may_speak_of_thoughts(tools: tuple[dict[str, object], ...]) -> None:
    text = "Write `<think>` before and `</think>` behind them."
    pieces = read(f"<think>\nhm\n</think>\n\n{text}", tools=tools)[1]
    assert join(pieces, wire.Channel.REASONING) == "hm\n" and join(pieces) == text


def test_thoughts_may_come_behind_a_call() -> None:
    call = json.dumps({"name": "weather", "arguments": {}})
    pieces = read(f"<tool_call>{call}</tool_call><think>hm</think>Hello", tools=TOOLS)[1]
    assert join(pieces, wire.Channel.REASONING) == "hm" and join(pieces) == "Hello"


def test_a_bare_call_may_speak_of_markers() -> None:
    call = '{"name": "weather", "arguments": {"city": "<think> and <tool_call>"}}'
    pieces = read(call, tools=TOOLS)[1]
    assert calls_in(pieces) == [("weather", {"city": "<think> and <tool_call>"})]

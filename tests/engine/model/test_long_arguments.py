"""Lists and objects among a tool call's tagged arguments are read once, however long they are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.tagged_values import BareValue
from engine.model.tool_calls import ToolCallReader
from tests.engine.model.test_streamed_calls import TOOLS, Tokenizer, calls_in
from tests.fakes import make_work

LINE = "return value + other  # a line, of some (more) words. "
CALLS = {
    "gemma4": ('call:weather{place:{name:<|"|>', '<|"|>}}'),
    "pythonic": ('[weather(place={"name": "', '"})]'),
}
NUM_CHARACTERS = 20_000
QUOTES = {"gemma4": ('<|"|>',), "pythonic": ('"""', "'''", '"', "'")}
SIGNS = ['"', "'", '<|"|>', "<|", "\\", "[", "]", "(", ")", "{", "}", ",", ":", "a", " "]


def seconds_of(reader: ToolCallReader, parts: list[str]) -> float:
    """Of this thread's processor time; nothing of the argument is shown before it is whole."""
    started = time.thread_time()
    assert not any(reader.feed(part) for part in parts)
    return time.thread_time() - started


@pytest.mark.parametrize("parser_name", sorted(CALLS))
def test_the_end_of_a_long_argument_costs_what_its_beginning_did(parser_name: str) -> None:
    before, after = CALLS[parser_name]
    text = (LINE * (NUM_CHARACTERS // len(LINE) + 1))[:NUM_CHARACTERS]
    parts = [text[at : at + 4] for at in range(0, NUM_CHARACTERS, 4)]
    reader = ToolCallReader(Tokenizer(parser_name), make_work("r", tools=TOOLS))
    pieces = reader.feed(before)
    first = seconds_of(reader, parts[:100])
    seconds_of(reader, parts[100:-100])
    last = seconds_of(reader, parts[-100:])
    pieces += reader.feed(after) + reader.close(is_complete=True)
    assert calls_in(pieces) == [("weather", {"place": {"name": text}})]
    assert last < 10 * first


SOME_SIGNS = st.lists(st.sampled_from(SIGNS), max_size=5).map("".join)


@st.composite
def values(draw: st.DrawFn, quotes: tuple[str, ...]) -> str:
    """A list, most often a sound one, and what follows it."""
    some = draw(st.lists(st.tuples(st.sampled_from(quotes), SOME_SIGNS), max_size=4))
    strings = ",".join(quote + signs + quote for quote, signs in some)
    return f"[{strings}{draw(SOME_SIGNS)}],{draw(SOME_SIGNS)}"


@pytest.mark.parametrize("parser_name", sorted(QUOTES))
@settings(max_examples=100, deadline=None)
@given(data=st.data(), size=st.integers(1, 4))
def test_a_value_that_comes_in_pieces_is_the_same(
    parser_name: str, data: st.DataObject, size: int
) -> None:
    text = data.draw(values(QUOTES[parser_name]))
    at_once = BareValue(str, quotes=QUOTES[parser_name]).read(text)
    value = BareValue(str, quotes=QUOTES[parser_name])
    reads = (value.read(text[:end]) for end in range(size, len(text) + size, size))
    assert next((one for one in reads if value.is_complete), ("", 0)) == at_once

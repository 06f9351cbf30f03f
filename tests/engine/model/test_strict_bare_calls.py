"""Qwen's coders forget `<tool_call>`: what then begins as a call of a strict tool is held, too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from llguidance import LLMatcher, LLTokenizer

from engine.model.answer_grammar import answer_grammar
from tests.engine.model.test_written_markers import Whole
from tests.fakes import make_work

BYTES = LLTokenizer("byte")
TRIP = {
    "type": "object",
    "properties": {"days": {"type": "integer"}},
    "required": ["days"],
    "additionalProperties": False,
}
CALL = "<function=trip>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"


class Coder(Whole):
    """One whose markers are no tokens of their own."""

    backend_tokenizer = SimpleNamespace(get_added_tokens_decoder=dict)

    def convert_tokens_to_ids(self, spelling: str) -> None:
        return None


def lets_through(text: str) -> bool:
    strict = {"name": "trip", "parameters": TRIP, "strict": True}
    free = {"name": "trip-2", "parameters": TRIP}
    tools = tuple({"type": "function", "function": each} for each in (strict, free))
    work = make_work("r", tools=tools)
    grammar = answer_grammar(work, Coder("qwen3_coder"))
    matcher = LLMatcher(BYTES, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher.consume_tokens(list(text.encode()))


@pytest.mark.parametrize("said", ["", "I shall look.\n", "<think>hm</think>\n\n", CALL + "\n"])
def test_a_call_without_its_marker_fits_its_schema(said: str) -> None:
    assert lets_through(said + CALL + "\nThat is it.")
    assert not lets_through(said + CALL.replace("3", "three"))


@pytest.mark.parametrize(
    "text",
    [
        "Write <function=trip> to call it.",
        "<function=rain>\nIs no tool.",
        "<function=tri",
        CALL.replace("trip", "trip-2").replace("3", "three"),
    ],
)
def test_other_words_are_free(text: str) -> None:
    assert lets_through(text)


def test_a_call_behind_words_of_it_is_held() -> None:
    said = "Write <function=trip> to call it.\n  "
    assert lets_through(said + CALL)
    assert not lets_through(said + CALL.replace("3", "three"))

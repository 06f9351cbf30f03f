"""Spellings that are tokens, found without reading a vocabulary whole."""

from __future__ import annotations

from typing import Any

import pytest

from engine import wire
from engine.model.answer_grammar import answer_grammar, marks_calls
from engine.model.harmony import markers_of
from engine.model.token_ids import ids_of
from tests.engine.model.rig import loaded
from tests.fakes import make_work

MODELS = ["tiny-qwen3", "tiny-gpt-oss"]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("model", MODELS)
def test_it_is_what_the_vocabulary_says(model: str) -> None:
    tokenizer = loaded(model).tokenizer
    vocabulary = tokenizer.get_vocab()
    spellings = ["<|channel|>", "<|im_end|>", "[ARGS]", "no such token", "", *list(vocabulary)[:50]]
    known = {one: vocabulary[one] for one in spellings if one in vocabulary}
    assert ids_of(tokenizer, *spellings) == known


@pytest.mark.parametrize("model", MODELS)
def test_a_grammar_does_not_read_the_vocabulary(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes 0.2 s and the interpreter with it, so that everybody's tokens wait."""
    tokenizer = loaded(model).tokenizer

    def refuse(*_: Any) -> None:
        raise AssertionError("the whole vocabulary is read")

    monkeypatch.setattr(type(tokenizer._tokenizer), "get_vocab", refuse)
    held = wire.Grammar(kind=wire.GrammarKind.JSON_OBJECT, param="response_format")
    choice = wire.ToolChoice(is_required=True)
    assert answer_grammar(make_work("a", grammar=held), tokenizer)
    assert answer_grammar(make_work("b", tools=(TOOL,), tool_choice=choice), tokenizer)
    assert isinstance(marks_calls(tokenizer), bool)
    assert bool(markers_of(tokenizer)) == (model == "tiny-gpt-oss")

"""Thoughts go to their own channel in every form that mlx-lm's tokenizers describe."""

from __future__ import annotations

from typing import Any

import pytest
from mlx_lm.chat_templates.muse_spark import RESPONSE_FORMAT

from engine import wire
from engine.core.answer import Piece
from engine.model.text import TextFactory
from tests.engine.model.rig import loaded
from tests.fakes import make_work

TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {}}},)
THINK = {"has_thinking": True, "think_start": "<think>", "think_end": "</think>"}
GEMMA = {"has_thinking": True, "think_start": "<|channel>thought", "think_end": "<channel|>"}
XTML = {
    "has_thinking": True,
    "think_start": "<|open|>think<|sep|>",
    "think_end": "<|close|>think<|sep|>",
    "structural_markers": (
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
    ),
}
HEADERS = {
    "has_thinking": False,
    "response_transitions": RESPONSE_FORMAT["transitions"],
    "response_initial_state": RESPONSE_FORMAT["initial_state"],
}
ANSWERS = {
    "plain": (THINK, "<think>hm</think>Hello"),
    "gemma": (GEMMA, "<|channel>thought\nhm<channel|>Hello"),
    "xtml": (
        XTML,
        "<|open|>think<|sep|>hm<|close|>think<|sep|>"
        "<|open|>response<|sep|>Hello<|close|>response<|sep|><|close|>message<|sep|>",
    ),
    "headers": (HEADERS, " to=self<|message|>hm<|eom|> to=user<|message|>Hello<|eot|>"),
}


class Dressed:
    """A real tokenizer that says of itself what another model's would."""

    def __init__(self, **said: Any) -> None:
        self._said = said

    def __getattr__(self, name: str) -> Any:
        if name in self._said:
            return self._said[name]
        return getattr(loaded("tiny-qwen3").tokenizer, name)


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["no-tools", "tools"])
@pytest.mark.parametrize("name", ANSWERS)
def test_thoughts_and_words_are_told_apart(name: str, tools: tuple[dict[str, Any], ...]) -> None:
    said, text = ANSWERS[name]
    tokenizer = Dressed(**said)
    stream = TextFactory(tokenizer).stream(make_work("r", tools=tools))
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = [piece for token_id in token_ids for piece in stream.add(token_id)] + stream.finish(
        is_cut=False
    )

    assert _joined(pieces, wire.Channel.REASONING) == "hm"
    assert _joined(pieces, wire.Channel.CONTENT) == "Hello"


def _joined(pieces: list[Piece], channel: wire.Channel) -> str:
    return "".join(piece.text for piece in pieces if piece.channel is channel)

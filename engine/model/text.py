"""Tokens of one answer into text, sorted into content, reasoning and tool calls.

A pure function of the tokens, so that a resumed answer can be replayed. Markers are found in the
text, not in the token ids: a marker's end may share a token with what follows. It does not know
stop strings nor the wire's events.
"""

from __future__ import annotations

from typing import Any

from mlx_lm.generate import TextStateMachine, make_text_state_machine

from engine import wire
from engine.core.answer import Piece
from engine.model.tool_calls import ToolCallReader

_REASONING = "reasoning"
_TOOL = "tool"
_NORMAL = "normal"


class TextFactory:
    """What a tokenizer says about text, read once per model."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._with_tools = make_text_state_machine(tokenizer)
        self._without_tools = _without_tools(tokenizer)

    def stream(self, work: wire.Work) -> ModelTextStream:
        has_tools = bool(work.tools) and self._tokenizer.has_tool_calling
        machine = self._with_tools if has_tools else self._without_tools
        start = _NORMAL
        if work.starts_in_reasoning and self._tokenizer.has_thinking:
            start = _REASONING
        elif has_tools and self._tokenizer.response_initial_state:
            start = self._tokenizer.response_initial_state
        return ModelTextStream(
            detokenizer=self._tokenizer.detokenizer,
            state=machine.make_state(start),
            tool_calls=ToolCallReader(
                self._tokenizer, request_id=work.request_id, tools=work.tools
            ),
        )


def _without_tools(tokenizer: Any) -> TextStateMachine:
    """Nobody offered a tool: what looks like a call is text."""
    if not tokenizer.has_thinking:
        return TextStateMachine()
    return TextStateMachine(
        {
            _NORMAL: [(tokenizer.think_start, _REASONING)],
            _REASONING: [(tokenizer.think_end, _NORMAL)],
        }
    )


class ModelTextStream:
    """A TextStream (core/answer.py) over mlx-lm's detokenizer and text state machine."""

    def __init__(self, *, detokenizer: Any, state: Any, tool_calls: ToolCallReader):
        self._detokenizer = detokenizer
        self._state = state
        self._tool_calls = tool_calls
        self._call_text: str | None = None
        # Models put line breaks around their markers; they belong to neither side.
        self._drops_space = state[0] == _REASONING

    @property
    def channel(self) -> wire.Channel:
        return _channel(self._state[0])

    @property
    def has_tool_calls(self) -> bool:
        return self._tool_calls.num_calls > 0

    def add(self, token_id: int) -> list[Piece]:
        self._detokenizer.add_token(token_id)
        return self._read(self._detokenizer.last_segment)

    def finish(self) -> list[Piece]:
        """What was held back: half a character, half a marker, a call without its end."""
        self._detokenizer.finalize()
        pieces = self._read(self._detokenizer.last_segment)
        self._state, rest, name = TextStateMachine.flush(self._state)
        pieces += self._take(name, rest)
        if self._call_text is not None:
            pieces += self._close_call(is_complete=False)
        return pieces

    def _read(self, text: str) -> list[Piece]:
        if not text or self._state[0] is None:
            return []
        self._state, segments = TextStateMachine.split(self._state, text)
        pieces: list[Piece] = []
        for index, (name, part) in enumerate(segments):
            pieces += self._take(name, part)
            if index < len(segments) - 1:
                pieces += self._leave(name)
        return pieces

    def _take(self, name: str | None, text: str) -> list[Piece]:
        if name == _TOOL:
            self._call_text = (self._call_text or "") + text
            return []
        if self._drops_space:
            text = text.lstrip()
        if not text:
            return []
        self._drops_space = False
        return [Piece(channel=_channel(name), text=text)]

    def _leave(self, name: str | None) -> list[Piece]:
        """A marker was read: the text before it is complete."""
        self._drops_space = True
        return self._close_call(is_complete=True) if name == _TOOL else []

    def _close_call(self, *, is_complete: bool) -> list[Piece]:
        text, self._call_text = self._call_text or "", None
        return self._tool_calls.read(text, is_complete=is_complete)


def _channel(state_name: str | None) -> wire.Channel:
    if state_name == _REASONING:
        return wire.Channel.REASONING
    return wire.Channel.TOOL_CALL if state_name == _TOOL else wire.Channel.CONTENT

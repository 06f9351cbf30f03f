"""Tokens of one answer into text, sorted into content, reasoning and tool calls.

A pure function of the tokens, so that a resumed answer can be replayed. Markers are found in the
text, not in the token ids: a marker's end may share a token with what follows. It does not know
stop strings nor the wire's events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlx_lm.generate import TextStateMachine

from engine import wire
from engine.core.answer import Piece, TextStream
from engine.model.detokenizer import Detokenizer, Vocabulary
from engine.model.harmony import HarmonyStream, markers_of
from engine.model.markers import (
    NORMAL,
    REASONING,
    TOOL,
    is_bare_call,
    with_tools,
    without_tools,
)
from engine.model.naked_calls import NakedCalls
from engine.model.tool_calls import ToolCallReader

_NO_MARKERS = TextStateMachine({NORMAL: []})


class TextFactory:
    """What a tokenizer says about text, read once per model."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.vocabulary = Vocabulary(tokenizer)
        self._without_tools = without_tools(tokenizer)
        self._harmony = markers_of(tokenizer)

    def stream(self, work: wire.Work) -> TextStream:
        if self._harmony and not work.is_raw:
            return HarmonyStream(
                detokenizer=self.vocabulary.detokenizer(goes_on=True),
                markers=self._harmony,
                tool_calls=ToolCallReader(self._tokenizer, work),
                tools=work.tools,
                is_begun=work.has_thought,
            )
        return ModelTextStream(
            detokenizer=self.vocabulary.detokenizer(goes_on=work.is_raw or work.continues_last),
            state=self._machine(work).make_state(self._start(work)),
            tool_calls=ToolCallReader(self._tokenizer, work),
            naked=NakedCalls(work) if self._may_be_naked(work) else None,
            think_start=self._tokenizer.think_start,
        )

    def _machine(self, work: wire.Work) -> TextStateMachine:
        if work.is_raw:
            return _NO_MARKERS
        has_tools = bool(work.tools) and self._tokenizer.has_tool_calling
        return with_tools(self._tokenizer, work.tools) if has_tools else self._without_tools

    def _start(self, work: wire.Work) -> str:
        if work.starts_in_reasoning and self._tokenizer.has_thinking:
            return REASONING
        is_plain = work.is_raw or not self._tokenizer.response_initial_state
        return NORMAL if is_plain else self._tokenizer.response_initial_state

    def _may_be_naked(self, work: wire.Work) -> bool:
        """Tools were offered, and an answer of JSON was not asked for."""
        is_text = work.grammar is None or work.tool_choice.is_required
        return bool(work.tools) and is_text


class ModelTextStream:
    """A TextStream (core/answer.py) over mlx-lm's text state machine."""

    def __init__(
        self,
        *,
        detokenizer: Detokenizer,
        state: Any,
        tool_calls: ToolCallReader,
        naked: NakedCalls | None,
        think_start: str | None,
    ):
        """`think_start` opens thoughts only where nothing has been said."""
        self._detokenizer = detokenizer
        self._state = state
        self._tool_calls = tool_calls
        self._naked = naked
        self._think_start = think_start
        self._has_said = self._is_within_line = False
        # Models put line breaks around their markers; they belong to neither side.
        self._drops_space = state[0] == REASONING

    @property
    def channel(self) -> wire.Channel:
        return _channel(self._state[0])

    @property
    def has_tool_calls(self) -> bool:
        return self._tool_calls.num_calls > 0

    @property
    def has_finished_call(self) -> bool:
        return self._tool_calls.num_finished > 0

    def add(self, token_id: int) -> list[Piece]:
        return self._read(self._detokenizer.add(token_id))

    def finish(self, *, is_cut: bool) -> list[Piece]:
        """What was held back: half a character, half a marker, a call without its end."""
        pieces = self._read(self._detokenizer.finish())
        self._state, rest, name = TextStateMachine.flush(self._state)
        pieces += self._take(name, rest)
        calls = self._tool_calls
        pieces += calls.cut() if is_cut else calls.close(is_complete=False)
        return pieces + self._release()

    def _read(self, text: str) -> list[Piece]:
        name, node, _, held = self._state
        if not text or name is None:
            return []
        if not held and node.keys().isdisjoint(text):  # no marker has begun, none begins here
            return self._take(name, text)
        pieces: list[Piece] = []
        for name, part, marker in self._parts(text):
            if self._tool_calls.is_over:
                break
            pieces += self._take(name, part)
            if marker and self._is_written(marker):
                self._state = _at_root(self._state, name)
                pieces += self._take(name, marker)
            elif marker:
                pieces += self._leave(name)
                if is_bare_call(marker):
                    pieces += self._take(TOOL, marker)
        return pieces

    def _parts(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Each a state, text in it and the marker that leaves it, after which the state may be set
        anew; at last without a marker."""
        said = ""
        for character in text:
            name, _, _, held = self._state
            self._state, segments = TextStateMachine.split(self._state, character)
            part = segments[0][1]
            said += part
            if len(segments) > 1:
                yield name, said, (held + character)[len(part) :]
                said = ""
        yield self._state[0], said, ""

    def _is_written(self, marker: str) -> bool:
        """It is a part of the text, which speaks of such markers."""
        if self._tool_calls.is_within_argument:
            return True
        if is_bare_call(marker):
            return self._is_within_line
        return marker == self._think_start and self._has_said

    def _take(self, name: str | None, text: str) -> list[Piece]:
        if name == TOOL:
            return self._tool_calls.feed(text)
        if self._drops_space:
            text = text.lstrip()
        if not text:
            return []
        self._drops_space = False
        self._has_said |= name != REASONING and not text.isspace()
        _, line_break, line = text.rpartition("\n")
        begun = not line_break and self._is_within_line
        self._is_within_line = begun or bool(line.strip())
        if self._naked is None or name == REASONING:
            return [Piece(channel=_channel(name), text=text)]
        return self._take_maybe_naked(self._naked, text)

    def _take_maybe_naked(self, naked: NakedCalls, text: str) -> list[Piece]:
        """Text that may be a call without its markers, until it is clear."""
        call, said = naked.sort(text)
        if call:
            return self._tool_calls.feed_naked(call, naked.header)
        if not naked.is_undecided:
            self._naked = None
        return [Piece(channel=wire.Channel.CONTENT, text=said)] if said else []

    def _leave(self, name: str | None) -> list[Piece]:
        """A marker was read: the text before it is complete."""
        self._drops_space, self._is_within_line = True, False
        return self._tool_calls.close(is_complete=True) if name == TOOL else self._release()

    def _release(self) -> list[Piece]:
        """What might have become a call without its markers."""
        held = self._naked.release() if self._naked is not None else ""
        return [Piece(channel=wire.Channel.CONTENT, text=held)] if held else []


def _at_root(state: Any, name: str) -> Any:
    """In this state, with no marker begun."""
    states = state[2]
    return (name, states[name][0], states, "")


def _channel(state_name: str | None) -> wire.Channel:
    if state_name == REASONING:
        return wire.Channel.REASONING
    return wire.Channel.TOOL_CALL if state_name == TOOL else wire.Channel.CONTENT

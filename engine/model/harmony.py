"""Answers in gpt-oss' form: messages, each with a header that says whom it is for.

    [<|start|>ROLE] [to=RECIPIENT]<|channel|>CHANNEL [to=RECIPIENT] [<|constrain|>json]<|message|>
    TEXT <|end|>

The prompt has ended behind the first ROLE. Unlike others' markers these are tokens of their own:
a text that spells one is a text. What a header says, and one that has no message, is shown to
nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import regex

from engine import wire
from engine.core.answer import Piece
from engine.model.detokenizer import Detokenizer
from engine.model.token_ids import ids_of
from engine.model.tool_calls import ToolCallReader

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
_MARKERS = (START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN)
_IN_HEADERS = (START, CHANNEL, CONSTRAIN)
_ANSWER_ENDS = (CALL, RETURN)
_LONGEST_HEADER = 1000  # one that goes on says nothing

# Of a header that has no marker yet: what else begins so is an answer without any form.
_BEFORE_CHANNEL = regex.compile(r"\s*(?:assistant)?\s*(?:to=\S*\s*\w*\s*)?")
_ROLE = regex.compile(r"<\|start\|>\s*([\w.-]*)")
_CHANNEL = regex.compile(r"<\|channel\|>\s*(\w*)")
# A name without its `to=` stands in for the channel now and then.
_RECIPIENT = regex.compile(
    r"(?:to=)?functions\.(?P<name>[^\s<]+)|to=(?!assistant\b)(?P<name>[^\s<]+)"
)
_OBJECT = regex.compile(r"\s*\{\s*[\"}]")


def markers_of(tokenizer: Any) -> dict[int, str]:
    """By their ids; none where this is not the tokenizer's form."""
    ids = ids_of(tokenizer, *_MARKERS)
    return {ids[marker]: marker for marker in ids} if len(ids) == len(_MARKERS) else {}


def end_token_ids(tokenizer: Any) -> frozenset[int]:
    """What ends such an answer, whatever the model's files say."""
    markers = markers_of(tokenizer)
    return frozenset(one for one, marker in markers.items() if marker in _ANSWER_ENDS)


class HarmonyStream:
    """A TextStream (core/answer.py)."""

    def __init__(
        self,
        *,
        detokenizer: Detokenizer,
        markers: Mapping[int, str],
        tool_calls: ToolCallReader,
        tools: Collection[dict[str, Any]],
        is_begun: bool,
    ):
        """`is_begun`: the prompt ends within the answer's text."""
        self._detokenizer = detokenizer
        self._markers = markers
        self._tool_calls = tool_calls
        self._has_tools = bool(tools)
        self._header = ""
        self._channel = wire.Channel.CONTENT if is_begun else None  # None: in a header
        self._name: str | None = None  # of a call whose arguments are to come
        self._held = ""  # of those arguments
        self._is_in_call = False
        self._has_form = False  # a marker has come

    @property
    def channel(self) -> wire.Channel:
        """Headers are neither said nor thought. What begins without any marker may be an answer."""
        if self._channel is None and not self._has_form:
            return wire.Channel.CONTENT
        if self._channel is None or self._name is not None or self._is_in_call:
            return wire.Channel.TOOL_CALL
        return self._channel

    @property
    def has_tool_calls(self) -> bool:
        return self._tool_calls.num_calls > 0

    @property
    def has_finished_call(self) -> bool:
        return self._tool_calls.num_finished > 0

    def add(self, token_id: int) -> list[Piece]:
        if self._tool_calls.is_over:
            return []
        marker = self._markers.get(token_id)
        if marker is None:
            return self._read(self._detokenizer.add(token_id))
        return self._read(self._detokenizer.finish()) + self._pass(marker)

    def finish(self, *, is_cut: bool) -> list[Piece]:
        pieces = self._read(self._detokenizer.finish())
        return pieces + self._close(is_cut=is_cut)

    def _pass(self, marker: str) -> list[Piece]:
        self._has_form = True
        if self._channel is None and marker in (CHANNEL, CONSTRAIN):
            self._header += marker
            return []
        if marker in (MESSAGE, CONSTRAIN):
            if self._channel is None:
                self._open()
            return []
        pieces = self._close(is_cut=False)
        self._header = marker if marker in (START, CHANNEL) else ""
        return pieces

    def _open(self) -> None:
        """The header is complete: whom is the message for?"""
        header, self._header = self._header, ""
        role = _ROLE.match(header)
        is_foreign = role is not None and role[1] not in ("", "assistant")
        channels = _CHANNEL.findall(header)
        is_thought = is_foreign or channels[-1:] == ["analysis"]
        self._channel = wire.Channel.REASONING if is_thought else wire.Channel.CONTENT
        recipient = _RECIPIENT.search(header)
        if recipient is not None and not is_foreign and self._has_tools:
            self._name = recipient["name"] if self._tool_calls.may_call else None

    def _read(self, text: str) -> list[Piece]:
        if not text:
            return []
        if self._channel is None:
            if self._is_marked:
                self._header = (self._header + text)[:_LONGEST_HEADER]
                return []
            self._header += text
            if _BEFORE_CHANNEL.fullmatch(self._header, partial=True) is not None:
                return []
            text, self._header, self._channel = self._header, "", wire.Channel.CONTENT
        if self._is_in_call:
            return self._tool_calls.feed(text)
        if self._name is not None:
            return self._begin_call(self._name, text)
        return [Piece(channel=self._channel, text=text)]

    @property
    def _is_marked(self) -> bool:
        return any(marker in self._header for marker in _IN_HEADERS)

    def _begin_call(self, name: str, text: str) -> list[Piece]:
        """Arguments that are no object are none: they come out as the text that they are."""
        self._held += text
        match = _OBJECT.match(self._held, partial=True)
        if match is not None and match.partial:
            return []
        held, self._held, self._name = self._held, "", None
        if match is None:
            return self._read(held)
        self._is_in_call = True
        return self._tool_calls.begin(name) + self._tool_calls.feed(held.lstrip())

    def _close(self, *, is_cut: bool) -> list[Piece]:
        """The message ends, or a header without one."""
        if self._channel is None:
            return self._close_header(is_cut=is_cut)
        pieces: list[Piece] = []
        if self._name is not None and not is_cut:
            pieces += self._begin_call(self._name, "" if self._held.strip() else "{}")
        if self._is_in_call:
            pieces += self._tool_calls.close(is_complete=not is_cut)
        elif self._held and not is_cut:
            pieces.append(Piece(channel=self._channel, text=self._held))
        self._channel = self._name = None
        self._held, self._is_in_call = "", False
        return pieces

    def _close_header(self, *, is_cut: bool) -> list[Piece]:
        """A short answer without any form looks like one."""
        is_header = self._is_marked or "to=" in self._header
        header, self._header = self._header, ""
        if is_cut or is_header or not header.strip():
            return []
        return [Piece(channel=wire.Channel.CONTENT, text=header)]

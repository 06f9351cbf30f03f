"""The text of tool calls into names and arguments, in the model's own dialect.

Arguments come out as they come in: a JSON object byte for byte, tagged ones as the object that they
say. Calls in an unexpected form are read when they are complete, by mlx-lm's parser. A call that
does not parse is no call: it comes out as the text that it is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from typing import Any

import regex

from engine import wire
from engine.core.answer import Piece
from engine.model.call_headers import JsonSpan, Span, header_of, name_in
from engine.model.tagged_arguments import PARSER_ERRORS, TaggedArguments, unquoted
from engine.model.tagged_forms import form_of
from engine.model.tool_parsers import parser_name, tools_for_parsers

# What may follow the last call of a section
_CLOSING = regex.compile(
    r"(?:[\s\]};]|<\|tool_call_end\|>|<\|/tool_call\|>|<\|close\|>(?:json|call)<\|sep\|>)*"
)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Section:
    """Text between two markers, or bare calls:   [ read ...... | to read ]
    ^ position
    """

    header: regex.Pattern[str] | None
    is_naked: bool = False
    text: str = ""
    position: int = 0
    span: Span | None = None  # of the arguments that are coming
    num_streamed: int = 0


class ToolCallReader:
    def __init__(self, tokenizer: Any, work: wire.Work):
        self._tokenizer = tokenizer
        self._request_id = work.request_id
        self._tools = tools_for_parsers(work.tools)
        self._max_calls = None if work.tool_choice.is_parallel else 1
        self._header = header_of(parser_name(tokenizer))
        self._form = form_of(parser_name(tokenizer))
        self._section: _Section | None = None
        self.num_calls = 0
        self.num_finished = 0

    @property
    def is_over(self) -> bool:
        """The only call that may be made is complete: nothing follows it."""
        return not self.may_call and self.num_finished == self.num_calls

    @property
    def is_within_argument(self) -> bool:
        """A marker that comes now is a part of it. Behind what ends calls it is none: then the
        argument's own end is missing."""
        section = self._section
        if section is None or section.span is None or not section.span.is_within_argument:
            return False
        return not section.text.rstrip().endswith(section.span.call_end)

    @property
    def may_call(self) -> bool:
        return self._max_calls is None or self.num_calls < self._max_calls

    def begin(self, name: str) -> list[Piece]:
        """A call whose name stands outside of its text: a JSON object is to come."""
        self._section = _Section(header=None, span=JsonSpan(), num_streamed=1)
        self.num_calls += 1
        return [self._piece("", name=name)]

    def feed(self, text: str) -> list[Piece]:
        """More text after a start marker."""
        self._section = self._section or _Section(header=self._header)
        return self._read(self._section, text)

    def feed_naked(self, text: str, header: regex.Pattern[str]) -> list[Piece]:
        """More text of calls without markers, which begin like `header`."""
        self._section = self._section or _Section(header=header, is_naked=True)
        return self._read(self._section, text)

    def close(self, *, is_complete: bool) -> list[Piece]:
        """The section ends; `is_complete`: the end marker was there."""
        section, self._section = self._section, None
        if section is None:
            return []
        if not section.num_streamed:
            return self._parse(section.text, is_complete=is_complete)
        pieces = self._end_span(section)
        if section.span is not None:
            self._warn("its end is missing")
            return pieces
        return pieces + self._unread(section)

    def cut(self) -> list[Piece]:
        """The answer is cut: what began as a call and has no whole name is shown to nobody."""
        section = self._section
        if section is not None and section.span is None and self._may_begin(section):
            self._section = None
        return self.close(is_complete=False)

    def _may_begin(self, section: _Section) -> bool:
        """Whether more text could make the next call of what is not read."""
        form = None if section.is_naked or self._form is None else self._form.header
        return any(
            header.match(section.text, section.position, partial=True)
            for header in (section.header, form)
            if header is not None
        )

    def _unread(self, section: _Section) -> list[Piece]:
        """What stands behind the calls that have streamed: more calls in another form, or words."""
        is_marked = not section.is_naked
        if _CLOSING.fullmatch(section.text, section.position, partial=is_marked):
            return []
        if is_marked and not self.may_call:
            return []  # only calls were to be there
        if is_marked and (later := self._later_calls(section)):
            return later
        self._warn("something follows it")
        rest = _CLOSING.sub("", section.text[section.position :], count=1)
        return [Piece(channel=wire.Channel.CONTENT, text=rest)]

    def _later_calls(self, section: _Section) -> list[Piece]:
        try:
            return self._whole(self._calls_in(section.text)[section.num_streamed :])
        except PARSER_ERRORS:
            return []

    def _end_span(self, section: _Section) -> list[Piece]:
        """Some dialects end a call by nothing but the section's end."""
        if section.span is None or not (last := section.span.close()):
            return []
        section.span = None
        self.num_finished += 1
        return [self._piece(last)]

    def _read(self, section: _Section, text: str) -> list[Piece]:
        section.text += text
        pieces = []
        while (piece := self._next_piece(section)) is not None:
            pieces.append(piece)
        return pieces

    def _next_piece(self, section: _Section) -> Piece | None:
        """Arguments that have come, or the beginning of a call."""
        if section.span is not None:
            return self._arguments(section, section.span)
        if not self.may_call or (begun := self._begin(section)) is None:
            return None
        name, section.position, section.span = begun
        section.num_streamed += 1
        self.num_calls += 1
        return self._piece("", name=name)

    def _begin(self, section: _Section) -> tuple[str, int, Span] | None:
        """The next call's name, where its arguments begin, and what reads them."""
        header, form = section.header, self._form
        if header is not None and (match := header.match(section.text, section.position)):
            return name_in(match), match.end(), JsonSpan()
        if form is None or section.is_naked:
            return None
        match = form.header.match(section.text, section.position)
        if match is None or match["name"] is None:
            return None
        name = unquoted(match["name"])
        span = TaggedArguments(form, name, self._schemas(name), self._parse_one)
        return name, match.end(), span

    def _schemas(self, name: str) -> dict[str, Any]:
        """Of the arguments of this tool."""
        for tool in self._tools:
            if tool["function"]["name"] == name:
                parameters = tool["function"].get("parameters")
                found = parameters.get("properties") if isinstance(parameters, dict) else None
                return found if isinstance(found, dict) else {}
        return {}

    def _parse_one(self, text: str) -> Any:
        return self._tokenizer.tool_parser(text, self._tools)

    def _arguments(self, section: _Section, span: Span) -> Piece | None:
        rest = section.text[section.position :]
        if not rest:
            return None
        shown, taken = span.take(rest)
        section.position += taken
        if span.is_complete:
            section.span = None
            self.num_finished += 1
        return self._piece(shown) if shown else None

    def _parse(self, text: str, *, is_complete: bool) -> list[Piece]:
        try:
            return self._whole(self._calls_in(text))
        except PARSER_ERRORS as error:
            self._warn(type(error).__name__)
            return [self._as_text(text, is_complete=is_complete)]

    def _calls_in(self, text: str) -> list[tuple[str, str]]:
        """Names and arguments. Raises PARSER_ERRORS."""
        return [_name_and_arguments(one) for one in _as_list(self._parse_one(text))]

    def _whole(self, calls: list[tuple[str, str]]) -> list[Piece]:
        pieces = []
        for name, arguments in calls:
            if self.may_call:
                self.num_calls += 1
                self.num_finished += 1
                pieces.append(self._piece(arguments, name=name))
        return pieces

    def _warn(self, reason: str) -> None:
        logger.warning(
            "tool call not understood", extra={"request_id": self._request_id, "error": reason}
        )

    def _as_text(self, text: str, *, is_complete: bool) -> Piece:
        end = self._tokenizer.tool_call_end if is_complete else ""
        whole = self._tokenizer.tool_call_start + text + end
        return Piece(channel=wire.Channel.CONTENT, text=whole)

    def _piece(self, arguments: str, *, name: str | None = None) -> Piece:
        """Of the call that was begun last."""
        index = self.num_calls - 1
        # Not random: a resumed answer must give the same call the same id.
        digest = hashlib.sha256(f"{self._request_id}:{index}".encode()).hexdigest()
        call = wire.ToolCallPart(index=index, call_id=f"call_{digest[:24]}", name=name)
        return Piece(channel=wire.Channel.TOOL_CALL, text=arguments, tool_call=call)


def _as_list(parsed: Any) -> list[Any]:
    return parsed if isinstance(parsed, list) else [parsed]


def _name_and_arguments(call: dict[str, Any]) -> tuple[str, str]:
    name, arguments = call["name"], call.get("arguments") or {}  # null and "" are none
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(arguments, dict):
        raise ValueError("arguments that are no object")
    return name, json.dumps(arguments, ensure_ascii=False)

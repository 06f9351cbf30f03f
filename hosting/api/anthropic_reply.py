"""The wire's events in the dialect of Anthropic's messages. It knows no HTTP and no rows.

    message_start · ping* · blocks (start, deltas, stop) · message_delta · message_stop

Waiting is pings, with the place as a comment beside them. The tokens that the cache gave are known
only once the prompt is restored, so message_delta says again what message_start could not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from engine import wire
from hosting.api import sse
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.dialect import History
from hosting.api.errors import ApiError
from hosting.api.sealing import seal
from hosting.api.timings import timings_of
from hosting.json_body import BadJson, read_json

Event = dict[str, Any]
_PING = sse.named({"type": "ping"})
_SIGNATURE = "hearth"  # clients send it back and nobody checks it, but its absence breaks them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """`max_tokens` is what was asked for; a limit, or the context, may have allowed less."""

    id: str
    model: str
    max_tokens: int | None
    context_tokens: int | None
    omits_thinking: bool = False


class MessageReply:
    """A Reply (dialect.py)."""

    def __init__(self, heading: Heading) -> None:
        self._heading = heading
        self._accepted = wire.Accepted(prompt_tokens=0, max_tokens=0)
        self._finished: wire.Finished | None = None
        self._blocks: list[Block] = []

    def lines(self, choice: int, event: wire.Event) -> str:
        match event:
            case wire.Accepted():
                self._accepted = event
                return _lines([{"type": "message_start", "message": self._message()}])
            case wire.Delta():
                return _lines(self._add(event))
            case wire.Finished():
                self._finished = event
                return ""
        told = sse.progress(event)
        return f": {told}\n{_PING}" if told else ""

    def heartbeat(self) -> str:
        return _PING

    def closing(self) -> str:
        end: Event = {
            "type": "message_delta",
            "delta": self._ending(),
            "usage": self._usage(),
        }
        if self._finished is not None:
            end["timings"] = timings_of([self._finished])
        return _lines([*self._close_block(), end, {"type": "message_stop"}])

    def error(self, error: ApiError) -> str:
        return sse.named(anthropic_form(error).body)

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        for event in histories[0]:
            match event:
                case wire.Accepted():
                    self._accepted = event
                case wire.Delta():
                    self._add(event)
                case wire.Finished():
                    self._finished = event
        return self._message()

    def _add(self, delta: wire.Delta) -> list[Event]:
        if not (delta.text or delta.tool_call):
            return []
        events: list[Event] = []
        if not self._blocks or not self._blocks[-1].continues_with(delta):
            events += self._close_block()
            kind = HiddenThinking if self._hides(delta) else Block
            self._blocks.append(kind(len(self._blocks), delta))
            events += self._blocks[-1].opening()
        return events + self._blocks[-1].feed(delta.text)

    def _hides(self, delta: wire.Delta) -> bool:
        return self._heading.omits_thinking and delta.channel == wire.Channel.REASONING

    def _close_block(self) -> list[Event]:
        return self._blocks[-1].closing() if self._blocks else []

    def _message(self) -> dict[str, Any]:
        return {
            "id": self._heading.id,
            "type": "message",
            "role": "assistant",
            "model": self._heading.model,
            "content": [block.whole() for block in self._blocks],
            **self._ending(),
            "usage": self._usage(),
        }

    def _ending(self) -> dict[str, Any]:
        if self._finished is None:
            return {"stop_reason": None, "stop_sequence": None}
        return {
            "stop_reason": self._stop_reason(self._finished),
            "stop_sequence": self._finished.stop_string,
        }

    def _stop_reason(self, finished: wire.Finished) -> str:
        match finished.reason:
            case wire.FinishReason.TOOL_CALLS:
                return "tool_use"
            case wire.FinishReason.LENGTH:
                is_full = self._is_context_full
                return "model_context_window_exceeded" if is_full else "max_tokens"
        return "end_turn" if finished.stop_string is None else "stop_sequence"

    @property
    def _is_context_full(self) -> bool:
        """Whether the answer was to end with the context, and with nothing before it."""
        asked, context_tokens = self._heading.max_tokens, self._heading.context_tokens
        allowed = self._accepted.max_tokens
        if asked is not None and allowed >= asked:
            return False
        return context_tokens is None or self._accepted.prompt_tokens + allowed >= context_tokens

    def _usage(self) -> dict[str, Any]:
        """`input_tokens` is without the cached ones here."""
        prompt_tokens = self._accepted.prompt_tokens
        usage = self._finished.usage if self._finished else wire.Usage(prompt_tokens=prompt_tokens)
        return {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        }


class Block:
    """One content block, from the delta that begins it."""

    def __init__(self, index: int, first: wire.Delta) -> None:
        self._index = index
        self._channel = first.channel
        self._call = first.tool_call
        self._texts: list[str] = []

    def continues_with(self, delta: wire.Delta) -> bool:
        index = delta.tool_call.index if delta.tool_call else None
        own_index = self._call.index if self._call else None
        return delta.channel == self._channel and index == own_index

    def opening(self) -> list[Event]:
        return [self._event("content_block_start", content_block=self._empty())]

    def feed(self, text: str) -> list[Event]:
        if not text:
            return []
        self._texts.append(text)
        return [self._event("content_block_delta", delta=self._delta(text))]

    def closing(self) -> list[Event]:
        before: list[Event] = []
        if self._channel == wire.Channel.REASONING:
            signature = {"type": "signature_delta", "signature": self._signature()}
            before = [self._event("content_block_delta", delta=signature)]
        elif self._call is not None and not self._texts:
            before = self.feed("{}")
        return [*before, self._event("content_block_stop")]

    def whole(self) -> dict[str, Any]:
        text = "".join(self._texts)
        match self._channel:
            case wire.Channel.TOOL_CALL:
                return self._empty() | {"input": _arguments(text)}
            case wire.Channel.REASONING:
                return {"type": "thinking", "thinking": text, "signature": self._signature()}
        return {"type": "text", "text": text}

    def _signature(self) -> str:
        return _SIGNATURE

    def _empty(self) -> dict[str, Any]:
        match self._channel:
            case wire.Channel.TOOL_CALL:
                assert self._call is not None
                tool_id = f"toolu_{self._call.call_id.removeprefix('call_')}"
                return {"type": "tool_use", "id": tool_id, "name": self._call.name, "input": {}}
            case wire.Channel.REASONING:
                return {"type": "thinking", "thinking": "", "signature": ""}
        return {"type": "text", "text": ""}

    def _delta(self, text: str) -> dict[str, Any]:
        match self._channel:
            case wire.Channel.TOOL_CALL:
                return {"type": "input_json_delta", "partial_json": text}
            case wire.Channel.REASONING:
                return {"type": "thinking_delta", "thinking": text}
        return {"type": "text_delta", "text": text}

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "index": self._index, **fields}


class HiddenThinking(Block):
    """Its text is in the signature only, which comes back with the next turn."""

    def feed(self, text: str) -> list[Event]:
        super().feed(text)
        return []

    def whole(self) -> dict[str, Any]:
        return super().whole() | {"thinking": ""}

    def _signature(self) -> str:
        return seal("".join(self._texts))


def _lines(events: list[Event]) -> str:
    return "".join(map(sse.named, events))


def _arguments(text: str) -> dict[str, Any]:
    """An object whatever came: an answer that was cut may end in the middle of it."""
    try:
        arguments = read_json(text.encode() or b"{}")
    except BadJson:
        return {}
    return arguments if isinstance(arguments, dict) else {}

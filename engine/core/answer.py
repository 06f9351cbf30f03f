"""One answer on its way out: tokens become wire events, the end is recognised. Pure.

It does not know tokenizers (a TextStream does that) nor rows (the scheduler does).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import NamedTuple, Protocol

from engine import wire
from engine.core.stopping import StopMatcher


class Piece(NamedTuple):
    """Text of one channel; in a tool call, a fragment of its arguments."""

    channel: wire.Channel
    text: str
    tool_call: wire.ToolCallPart | None = None


_NOTHING = Piece(channel=wire.Channel.CONTENT, text="")


class TextStream(Protocol):
    """Tokens in, text by channel out. A pure function of the tokens, so that it can be replayed."""

    @property
    def channel(self) -> wire.Channel: ...
    @property
    def has_tool_calls(self) -> bool: ...
    @property
    def has_finished_call(self) -> bool: ...
    def add(self, token_id: int) -> list[Piece]: ...
    def finish(self, *, is_cut: bool) -> list[Piece]:
        """`is_cut`: somebody else ended it."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    reason: wire.FinishReason
    stop_string: str | None = None


class Answer:
    """Live state of one request's output. `ending` is set once the answer is complete.

    Tokens that an earlier engine delivered are replayed silently: text, stop strings and channels
    stand afterwards as they stood there.
    """

    def __init__(
        self,
        work: wire.Work,
        text: TextStream,
        *,
        end_token_ids: Collection[int],
        delivered_token_ids: tuple[int, ...] = (),
    ):
        self.work = work
        self.ending: Ending | None = None
        self.cached_tokens = 0
        self._text = text
        self._channel = text.channel
        self._stops = StopMatcher(work.stop)
        self._end_token_ids = end_token_ids
        self._num_tokens = 0
        self._num_reasoning_tokens = 0
        # Of tokens whose text is held back. Such a token waits for it too: an engine that goes on
        # with what was delivered draws it once more, and its logprobs with it.
        self._untold: list[wire.PositionLogprobs] = []
        self._untold_token_ids: list[int] = []
        for token_id in delivered_token_ids:
            self.add(token_id)

    @property
    def usage(self) -> wire.Usage:
        return wire.Usage(
            prompt_tokens=len(self.work.prompt_token_ids),
            cached_tokens=self.cached_tokens,
            completion_tokens=self._num_tokens,
            reasoning_tokens=self._num_reasoning_tokens,
        )

    @property
    def num_told_tokens(self) -> int:
        return self._num_tokens - len(self._untold_token_ids)

    def add(self, token_id: int, logprobs: wire.PositionLogprobs | None = None) -> list[wire.Event]:
        """The Deltas of one more token; the first carries the token itself, the first with content
        the logprobs of its tokens. None while logprobs wait for text that is held back."""
        self._num_tokens += 1
        self._untold_token_ids.append(token_id)
        if token_id in self._end_token_ids:
            pieces = self._end(wire.FinishReason.STOP)
        else:
            pieces = self._stopped(self._text.add(token_id))
            before, self._channel = self._channel, self._text.channel
            self._num_reasoning_tokens += self._channel is wire.Channel.REASONING
            self._note(logprobs, before)
            if self._stops.matched is not None:
                self.ending = Ending(reason=wire.FinishReason.STOP, stop_string=self._stops.matched)
            elif self._text.has_finished_call and not self.work.tool_choice.is_parallel:
                self.ending = Ending(reason=wire.FinishReason.TOOL_CALLS)
            elif self._num_tokens >= self.work.max_tokens:
                pieces += self._end(wire.FinishReason.LENGTH)
        return self._deltas(pieces)

    def cut(self) -> list[wire.Event]:
        """Somebody cancelled: what was held back, as it is part of the answer."""
        pieces = self._end(wire.FinishReason.CANCELLED)
        return self._deltas(pieces) if pieces or self._untold_token_ids else []

    def _note(self, logprobs: wire.PositionLogprobs | None, before: wire.Channel) -> None:
        """Of a token that began in this channel. Markers and what is not content have none."""
        if self._channel is not wire.Channel.CONTENT:
            self._untold.clear()
        elif logprobs is not None and before is wire.Channel.CONTENT:
            self._untold.append(logprobs)

    def _deltas(self, pieces: list[Piece]) -> list[wire.Event]:
        if self._untold and self.ending is None and not any(map(_is_shown, pieces)):
            return []
        token_ids, self._untold_token_ids = tuple(self._untold_token_ids), []
        first, *others = pieces or [_NOTHING]
        return [self._delta(first, token_ids), *map(self._delta, others)]

    def _delta(self, piece: Piece, token_ids: tuple[int, ...] = ()) -> wire.Delta:
        logprobs: tuple[wire.PositionLogprobs, ...] = ()
        if self._untold and _is_shown(piece):
            told, self._untold = tuple(self._untold), []
            logprobs = told if piece.channel is wire.Channel.CONTENT else ()
        return wire.Delta(
            channel=piece.channel,
            text=piece.text,
            token_ids=token_ids,
            logprobs=logprobs,
            tool_call=piece.tool_call,
        )

    def _end(self, reason: wire.FinishReason) -> list[Piece]:
        is_cut = reason is not wire.FinishReason.STOP
        pieces = self._stopped(self._text.finish(is_cut=is_cut))
        if self._stops.matched is not None:
            self.ending = Ending(reason=wire.FinishReason.STOP, stop_string=self._stops.matched)
            return pieces
        if held := self._stops.flush():
            pieces.append(Piece(channel=wire.Channel.CONTENT, text=held))
        if reason is wire.FinishReason.STOP and self._text.has_tool_calls:
            reason = wire.FinishReason.TOOL_CALLS
        self.ending = Ending(reason=reason)
        return pieces

    def _stopped(self, pieces: list[Piece]) -> list[Piece]:
        """Stop strings count in what is said, not in what is thought or called."""
        if not self.work.stop:
            return pieces
        shown = []
        for piece in pieces:
            if piece.channel is wire.Channel.CONTENT:
                text = self._stops.feed(piece.text)
            elif self._stops.matched is not None:
                break
            else:
                if held := self._stops.flush():
                    shown.append(Piece(channel=wire.Channel.CONTENT, text=held))
                text = piece.text
            if text or piece.tool_call is not None:
                shown.append(piece._replace(text=text))
        return shown


def _is_shown(piece: Piece) -> bool:
    return bool(piece.text or piece.tool_call)

"""One request while this engine works on it: its row, its answer, its times. Owner: model thread.

It turns what happens to the row into wire events. It does not know other requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Protocol

from engine import wire
from engine.core.answer import Answer, TextStream
from engine.core.blocks import Chain
from engine.core.constraint import PendingGrammar
from engine.core.delivery import Delivery, is_overdue
from engine.core.sequence import Sequence
from engine.core.step import Drawn


class Voice(Protocol):
    """What a model's tokenizer knows about text: model/text.py, or a fake."""

    @property
    def end_token_ids(self) -> Collection[int]: ...
    def stream(self, work: wire.Work) -> TextStream: ...
    def grammar(self, work: wire.Work) -> PendingGrammar | None: ...


class LiveRequest:
    def __init__(
        self,
        delivery: Delivery,
        text: TextStream,
        *,
        end_token_ids: Collection[int],
        arrived_at: float,
        load_seconds: float,
    ):
        self.delivery = delivery
        self.request_id = delivery.work.request_id
        self.sequence = Sequence(
            delivery.work, delivered_token_ids=delivery.delivered_token_ids, arrived_at=arrived_at
        )
        self.answer = Answer(
            delivery.work,
            text,
            end_token_ids=end_token_ids,
            delivered_token_ids=delivery.delivered_token_ids,
        )
        self.answer.cached_tokens = delivery.cached_tokens or 0
        self.chain: Chain | None = None  # its tokens as the prefix cache names them
        self.prefix: wire.PrefixUse | None = None  # how it fared there
        self.is_kept = False  # what its row computed has been copied for the last time
        self.is_forgotten = delivery.is_forgotten  # whoever it is for: nothing is kept
        self.is_paused = False  # its row was taken away; it gets another one
        self._has_first_row = False
        self._load_seconds = load_seconds
        self._started_at: float | None = None
        self._first_token_at: float | None = None
        self._last_token_at: float | None = None

    @property
    def has_started(self) -> bool:
        return self._started_at is not None

    @property
    def has_drawn(self) -> bool:
        """It has a token that no earlier engine delivered."""
        return self._first_token_at is not None

    @property
    def is_proven(self) -> bool:
        """Its row has drawn in the batch, and the engine lives: one token may come of a slice."""
        return self.sequence.num_output_tokens > len(self.delivery.delivered_token_ids) + 1

    def is_overdue(self, now: float) -> bool:
        return is_overdue(self.delivery, now)

    def start(self, *, now: float) -> wire.Event:
        """`now` is Unix time, here and below."""
        if self.is_paused:
            self.is_paused = False
            return wire.Resumed(at_tokens=self.sequence.num_output_tokens)
        self._started_at = now
        if self.delivery.attempt > 1:
            return wire.Resumed(at_tokens=len(self.delivery.delivered_token_ids))
        return wire.Started(cached_tokens=self.answer.cached_tokens)

    def pause(self) -> wire.Event:
        self.is_paused = True
        return wire.Paused()

    def put_off(self) -> Delivery:
        """The same request for later, with what was delivered of it up to now."""
        delivered = self.sequence.output_token_ids[: self.answer.num_told_tokens]
        cached_tokens = self.delivery.cached_tokens
        if self.has_started:
            cached_tokens = self.answer.cached_tokens
        return dataclasses.replace(
            self.delivery,
            attempt=self.delivery.attempt + self.has_started,
            delivered_token_ids=delivered,
            cached_tokens=cached_tokens,
            is_forgotten=self.is_forgotten,
        )

    def note_cached(self, num_tokens: int) -> None:
        """So much its new row need not compute. What later rows find, in a later engine too, may be
        what it computed itself: that does not count. What the last token leads to counts as
        computed, though its logits may be kept."""
        self._has_first_row = not self.has_started and self.delivery.cached_tokens is None
        if self._has_first_row:
            most = len(self.delivery.work.prompt_token_ids) - 1
            self.answer.cached_tokens = min(num_tokens, most)

    def note_leap(self, num_tokens: int) -> None:
        """So many more need not be computed: they came from disk meanwhile."""
        if self._has_first_row:
            most = len(self.delivery.work.prompt_token_ids)
            self.answer.cached_tokens = min(self.answer.cached_tokens + num_tokens, most)

    def prefilled(self, done_tokens: int) -> wire.Event:
        total = len(self.sequence.token_ids)
        return wire.Prefilled(done_tokens=done_tokens, total_tokens=total)

    def add(self, drawn: Drawn, *, now: float) -> list[wire.Event]:
        """The events of a new token; after the last one also Finished."""
        self._first_token_at = self._first_token_at or now
        self._last_token_at = now
        events = self.answer.add(drawn.token_id, drawn.logprobs)
        return [*events, self.finished()] if self.answer.ending else events

    def cancel(self) -> list[wire.Event]:
        return [*self.answer.cut(), self.finished()]

    def finished(self) -> wire.Finished:
        ending = self.answer.ending
        assert ending is not None
        return wire.Finished(
            reason=ending.reason,
            usage=self.usage,
            timings=self._timings(),
            stop_string=ending.stop_string,
            prefix=self.prefix,
        )

    def failed(self, code: wire.Code, detail: str) -> wire.Failed:
        return wire.Failed(code=code, detail=detail, usage=self.usage)

    @property
    def usage(self) -> wire.Usage:
        return self.answer.usage if self.has_started else self.delivery.usage

    def row_status(self, *, now: float) -> wire.RowStatus:
        work, sequence = self.delivery.work, self.sequence
        return wire.RowStatus(
            request_id=work.request_id,
            model=work.model,
            tenant=work.tenant,
            state=sequence.status.value,
            prompt_tokens=len(work.prompt_token_ids),
            cached_tokens=self.answer.cached_tokens,
            computed_tokens=sequence.computed_tokens,
            output_tokens=sequence.num_output_tokens,
            age_seconds=max(0.0, now - work.accepted_at),
            prefix=self.prefix,
        )

    def _timings(self) -> wire.Timings:
        accepted_at = self.delivery.work.accepted_at
        started_at = self._started_at if self._started_at is not None else accepted_at
        first = self._first_token_at
        is_whole = self.delivery.attempt == 1
        queued = started_at - accepted_at - self._load_seconds if is_whole else 0.0
        return wire.Timings(
            queued_seconds=max(0.0, queued),
            load_seconds=self._load_seconds,
            prefill_seconds=max(0.0, first - started_at) if first is not None else 0.0,
            # When a resumed answer began, and its first token came, is unknown here.
            ttft_seconds=max(0.0, first - accepted_at) if first and is_whole else None,
            decode_seconds=max(0.0, (self._last_token_at or 0.0) - first) if first else 0.0,
        )

"""One request for vectors or scores while it is worked on. Owner: model thread."""

from __future__ import annotations

import dataclasses

from engine import wire
from engine.core.bundling import Input, Pending
from engine.core.delivery import VectorDelivery, is_overdue


class VectorRequest:
    """`pending` is what is left to compute of it, shortest rows first."""

    def __init__(self, delivery: VectorDelivery, *, arrived_at: float, load_seconds: float):
        self.delivery = delivery
        self.work = work = delivery.work
        inputs = [
            Input(request_id=work.request_id, place=place, token_ids=row)
            for place, row in enumerate(work.inputs)
        ]
        inputs.sort(key=lambda one: len(one.token_ids))
        self.pending = Pending(inputs=inputs, priority=work.priority, arrived_at=arrived_at)
        self._load_seconds = load_seconds
        self._started_at: float | None = None
        self._first_at: float | None = None

    @property
    def request_id(self) -> str:
        return self.work.request_id

    @property
    def is_proven(self) -> bool:
        """Some of it has been computed, so it did not kill its engine."""
        return self._first_at is not None

    def is_overdue(self, now: float) -> bool:
        """`now` is Unix time, here and below."""
        return is_overdue(self.delivery, now)

    def start(self, *, now: float) -> list[wire.Event]:
        """Said once."""
        if self._started_at is not None:
            return []
        self._started_at = now
        if self.delivery.attempt > 1:
            return [wire.Resumed(at_tokens=0)]
        return [wire.Started(cached_tokens=0)]

    def put_off(self) -> VectorDelivery:
        """The same request for later; it begins anew."""
        has_started = self._started_at is not None
        return dataclasses.replace(self.delivery, attempt=self.delivery.attempt + has_started)

    def add(self, done: Input, event: wire.Event, *, now: float) -> list[wire.Event]:
        """The events of a computed input; after the last one also Finished."""
        self._first_at = self._first_at or now
        self.pending.inputs.remove(done)
        return [event] if self.pending.inputs else [event, self.finished(wire.FinishReason.STOP)]

    def finished(self, reason: wire.FinishReason) -> wire.Finished:
        return wire.Finished(reason=reason, usage=self.usage, timings=self._timings())

    @property
    def usage(self) -> wire.Usage:
        if self._started_at is None:
            return self.delivery.usage
        return wire.Usage(prompt_tokens=self.work.num_tokens)

    def row_status(self, *, now: float) -> wire.RowStatus:
        total = self.work.num_tokens
        return wire.RowStatus(
            request_id=self.request_id,
            model=self.work.model,
            tenant=self.work.tenant,
            state="prefilling" if self._started_at is not None else "waiting",
            prompt_tokens=total,
            cached_tokens=0,
            computed_tokens=total - self.pending.num_tokens,
            output_tokens=0,
            age_seconds=max(0.0, now - self.work.accepted_at),
        )

    def _timings(self) -> wire.Timings:
        accepted_at = self.work.accepted_at
        started_at = self._started_at if self._started_at is not None else accepted_at
        first_at = self._first_at
        return wire.Timings(
            queued_seconds=max(0.0, started_at - accepted_at - self._load_seconds),
            load_seconds=self._load_seconds,
            ttft_seconds=None if first_at is None else max(0.0, first_at - accepted_at),
        )

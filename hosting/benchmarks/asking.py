"""Sends a benchmark's requests the way that all requests go, and waits for the rows they become.

Waiting for rows, not for events, it loses nothing with Redis, an engine or the ledger. Times are
the engine's own, as the event tells them with which an answer ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from engine import wire
from hosting.actions.batch_events import histories_of
from hosting.actions.benchmarks import (
    BenchmarkChanged,
    begin_requests,
    drop_requests,
    stop_requests,
    write_result,
)
from hosting.actions.generations import BENCHMARKS
from hosting.actions.heartbeats import heartbeats
from hosting.actions.orders import Order, SamplingChoice
from hosting.actions.outcome import Outcome, cancelled_before_start, failure, fold
from hosting.engine_client import EngineUnavailable
from hosting.models import Benchmark, BenchmarkAnswer, Generation, HostedModel

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 600.0  # without an engine, or room in the queue
NO_ENGINE = "No engine was there for ten minutes."
_AGAIN_SECONDS = 2.0
_LEAVE_SECONDS = 5.0
_MOST_ATTEMPTS = 3
_QUEUE_FULL = (wire.Code.QUEUE_FULL, wire.Code.TENANT_QUEUE_FULL)
_TOO_LARGE = (wire.Code.CONTEXT_LENGTH_EXCEEDED, wire.Code.DOES_NOT_FIT)
# Whatever defaults the model has: runs are compared
GREEDY = SamplingChoice(
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    repetition_penalty=1.0,
    seed=0,
)


class Failed(Exception):
    """It cannot go on; the message says why."""


class Cancelled(Exception):
    """Somebody stopped it, or one of its requests, as the message then says."""


class Stopped(Exception):
    """The background worker ends."""


class TooLarge(Exception):
    """Model or memory are too small for this; the message is the engine's."""


class Asking:
    """Owner: one thread. `benchmark` is as it was written last."""

    def __init__(self, benchmark: Benchmark, model: HostedModel, stop: threading.Event) -> None:
        self.benchmark = benchmark
        self.model = model
        self._stop = stop
        self._ids: list[str] = []
        self._engine_seen_at = 0.0

    def order(self, **fields: Any) -> Order:
        benchmark = self.benchmark
        if benchmark.user is None:
            raise Failed("The person who started it was deleted.")
        return Order(
            user=benchmark.user,
            kind=Generation.Kind.BENCH,
            model=self.model,
            client=str(benchmark),
            **({"sampling": GREEDY} | fields),
        )

    def ask(
        self, make: Callable[[], Sequence[Order]], *, doing: str, is_timed: bool
    ) -> list[Outcome]:
        """What came of each, when all have ended. Where an engine was lost meanwhile, what
        `is_timed` is made and asked anew: caches know the old ones.

        Raises TooLarge, Failed, Cancelled, Stopped, BenchmarkChanged.
        """
        for _ in range(_MOST_ATTEMPTS):
            outcomes = self._ask_once(make, doing)
            if not (is_timed and any(map(_was_interrupted, outcomes))):
                return _checked(outcomes)
        raise Failed(f"The engine was lost, or short of memory, {_MOST_ATTEMPTS} times.")

    def write(self, *, num_steps: int, answer: BenchmarkAnswer | None = None, **found: Any) -> None:
        """The result of what was asked last."""
        found["num_done"] = self.benchmark.num_done + num_steps
        found["num_others"] = self.benchmark.num_others
        write_result(self.benchmark, self._ids, answer=answer, **found)
        self._ids = []

    def leave(self) -> None:
        leave_requests(self._ids, self._stop)

    def _ask_once(self, make: Callable[[], Sequence[Order]], doing: str) -> list[Outcome]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            drop_requests(self._ids)
            self._ids = self._begin(make(), doing, deadline)
            self._engine_seen_at = time.monotonic()
            self._wait(POLL_SECONDS)
            self._look_at_engines()
            while _are_under_way(self._ids):
                self._wait(POLL_SECONDS)
                self._look_at_engines()
            outcomes = self._read()
            is_full = any(one.error_code in _QUEUE_FULL for one in outcomes)
            if not is_full or time.monotonic() > deadline:
                return outcomes
            self._wait(_AGAIN_SECONDS)

    def _begin(self, orders: Sequence[Order], doing: str, deadline: float) -> list[str]:
        while True:
            self._check()
            try:
                return begin_requests(self.benchmark, orders, doing=doing)
            except EngineUnavailable:
                if time.monotonic() > deadline:
                    raise Failed(NO_ENGINE) from None
                self._wait(_AGAIN_SECONDS)
            except BenchmarkChanged:
                self._check()
                raise

    def _read(self) -> list[Outcome]:
        rows = {str(row.pk): row for row in Generation.objects.filter(pk__in=self._ids)}
        if len(rows) < len(self._ids):
            raise Failed("The person who started it was deleted.")
        histories = histories_of(self._ids)
        outcomes = [fold(histories.get(pk, ())) or _untold(rows[pk]) for pk in self._ids]
        if any(one.state == Generation.State.CANCELLED for one in outcomes):
            self._check()
            raise Cancelled("One of its requests was stopped.")
        return outcomes

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped
        self._check()

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped
        rows = Benchmark.objects.filter(pk=self.benchmark.pk)
        is_cancelled = rows.values_list("is_cancel_requested", flat=True).first()
        if is_cancelled is None:
            raise BenchmarkChanged
        if is_cancelled:
            raise Cancelled

    def _look_at_engines(self) -> None:
        """Raises Failed where there was none for long: what they had would be waited for for ever.

        Where somebody else's requests are computed, this is no quiet machine.
        """
        beats, now = heartbeats(), time.monotonic()
        if beats:
            self._engine_seen_at = now
        elif now - self._engine_seen_at > PATIENCE_SECONDS:
            raise Failed(NO_ENGINE)
        num_others = sum(row.tenant != BENCHMARKS for beat in beats for row in beat.rows)
        self.benchmark.num_others = max(self.benchmark.num_others, num_others)


def leave_requests(ids: Sequence[str], stop: threading.Event) -> None:
    """What still runs is stopped, and waited for a little: its answers are nobody's."""
    stop_requests(ids)
    deadline = time.monotonic() + _LEAVE_SECONDS
    while _are_under_way(ids) and time.monotonic() < deadline and not stop.wait(POLL_SECONDS):
        pass
    drop_requests(ids)


def _are_under_way(ids: Sequence[str]) -> bool:
    return Generation.objects.open().filter(pk__in=ids).exists()


def _was_interrupted(outcome: Outcome) -> bool:
    """By the end of its engine, or a lack of memory: what it took then says nothing."""
    is_told = any(isinstance(event, wire.Resumed) for event in outcome.events)
    return is_told or (not outcome.error_code and outcome.timings.ttft_seconds is None)


def _checked(outcomes: list[Outcome]) -> list[Outcome]:
    for one in outcomes:
        if one.error_code in _TOO_LARGE:
            raise TooLarge(one.error_detail)
        if one.error_code:
            raise Failed(one.error_detail or one.error_code)
    return outcomes


def _untold(row: Generation) -> Outcome:
    """How one ended of which no event tells."""
    if row.state == Generation.State.CANCELLED:
        return cancelled_before_start()
    return failure("failed", row.error_code or "engine_error", row.error_detail)

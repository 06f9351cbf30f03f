"""A loaded model that gives vectors or scores, with its requests: one turn is one bundle.

Its turns are slices to everybody who decodes: no longer than a stall, and paid back. It does not
know the transport or other models. Owner: model thread.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engine import wire
from engine.at_work import AtWork
from engine.core.bundling import Input, Turn, plan_bundle
from engine.core.cost import FIRST_USE_SECONDS, CostModel
from engine.core.delivery import VectorDelivery
from engine.core.limits import NO_LIMITS, Limits
from engine.core.pacing import Pace, TimeLedger
from engine.core.sequence import Status
from engine.core.step import UndefinedNumbers
from engine.faults import engine_error
from engine.metrics import Vitals
from engine.sizing.estimate import Estimate
from engine.sizing.exhaustion import is_out_of_memory
from engine.vector_request import VectorRequest

Events = list[tuple[str, wire.Event]]
_NOBODY: frozenset[str] = frozenset()
logger = logging.getLogger(__name__)


class LongRow(Protocol):
    """A row that is computed in pieces."""

    @property
    def num_computed(self) -> int: ...
    @property
    def num_left(self) -> int: ...


class Computer(Protocol):
    """What computes rows: model/vectors.py, or a fake. A row is answered by an Embedded or Scored
    for `place`; `event` raises UndefinedNumbers where its result is none."""

    def run(self, rows: Sequence[tuple[int, ...]]) -> Sequence[Any]: ...
    def begin(self, row: tuple[int, ...]) -> LongRow: ...
    def go_on(self, long: Any, num_tokens: int) -> Sequence[Any] | None: ...
    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event: ...


@dataclasses.dataclass(slots=True)
class _Long:
    """An input that takes several turns, and how far it is. `is_due`: others had the last turn."""

    input: Input
    row: LongRow
    is_due: bool = False


class _Place:
    """What the turnstile knows of the requests in `live`, as long as memory refuses them."""

    def __init__(self, live: Mapping[str, VectorRequest]) -> None:
        self._live = live
        self.passed_since: int | None = None

    @property
    def status(self) -> Status:
        is_refused = bool(self._live) and self.passed_since is not None
        return Status.WAITING if is_refused else Status.FINISHED


class VectorHandle:
    has_rows = False  # nothing outlives a call
    is_decoding = False
    only_waits = False

    def __init__(
        self,
        spec: wire.ModelSpec,
        *,
        runner: Computer,
        ledger: TimeLedger,
        vitals: Vitals,
        estimate: Estimate | None = None,
        cost: CostModel | None = None,
        weight_bytes: int = 0,
        context_limit_tokens: int = 0,
        at_work: AtWork | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ):
        self.spec = spec
        self.weight_bytes = weight_bytes
        self.row_bytes = 0
        self.last_used_at = clock()
        self._context_limit_tokens = context_limit_tokens
        self._estimate = estimate
        self._runner = runner
        self._ledger = ledger
        self._vitals = vitals
        self._at_work = at_work or AtWork()
        self._clock = clock
        self._wall_clock = wall_clock
        self.pace = Pace.of(spec, may_batch=True)
        self._cost = cost or CostModel()
        self._live: dict[str, VectorRequest] = {}
        self._place = _Place(self._live)
        self._long: _Long | None = None
        self._suspects: list[Input] = []  # of a bundle that failed: computed one by one
        self._has_given_all = False  # the device took no more, and no turn has ended since

    @property
    def is_idle(self) -> bool:
        return not self._live

    @property
    def has_prompts(self) -> bool:
        return not self.is_idle

    @property
    def _is_its_turn(self) -> bool:
        """While rows of others decode."""
        is_first = self._ledger.stand_in_line(self)
        return is_first and not self._ledger.owes_decode and not self._ledger.num_slices_in_flight

    @property
    def awaits_first_token(self) -> bool:
        return not self.is_idle

    @property
    def num_live(self) -> int:
        return len(self._live)

    @property
    def status(self) -> wire.ModelStatus:
        return wire.ModelStatus(
            name=self.spec.name,
            state="loaded",
            weight_bytes=self.weight_bytes,
            context_limit_tokens=self.spec.context_limit_tokens or self._context_limit_tokens,
        )

    def configure(self, spec: wire.ModelSpec) -> None:
        """New settings count from the next turn on."""
        self.spec = spec
        self.pace = Pace.of(spec, may_batch=True)

    def row_statuses(self) -> tuple[wire.RowStatus, ...]:
        now = self._wall_clock()
        return tuple(live.row_status(now=now) for live in self._live.values())

    def get_live(self, request_id: str) -> VectorRequest | None:
        return self._live.get(request_id)

    def add(self, delivery: VectorDelivery, *, load_seconds: float = 0.0) -> Events:
        live = VectorRequest(delivery, arrived_at=self._clock(), load_seconds=load_seconds)
        self._live[live.request_id] = live
        return []

    def cancel(self, request_id: str) -> Events:
        live = self._forget(request_id)
        return [] if live is None else [(request_id, live.finished(wire.FinishReason.CANCELLED))]

    def drop(self, request_id: str) -> None:
        """As cancel, but another engine has the request now: nothing is said."""
        self._forget(request_id)

    def give_back(self) -> list[VectorDelivery]:
        """All its requests, as they are to be delivered again: this model has to go."""
        lives = list(self._live.values())
        for live in lives:
            self._forget(live.request_id)
        return [live.put_off() for live in lives]

    def fetched(self, request_id: str) -> Events:
        """It restores nothing from disk."""
        return []

    def persist(self) -> None:
        """It keeps nothing."""

    def turn(self, *, others: Pace | None = None, limits: Limits = NO_LIMITS) -> Events:
        """Compute one bundle, unless those who decode are owed their time, or memory is theirs."""
        events = self._end_overdue()
        if not self._live or (others is not None and not self._is_its_turn):
            return events
        self._ledger.leave_line(self)
        seconds = self.pace.turn_seconds(someone_decodes=others is not None)
        if others is not None:
            seconds = min(seconds, others.stall_seconds)
        turn = self._decide(seconds, limits)
        if turn is None:
            limits.turnstile.note_refused(self._place)
            return events
        if self._place.passed_since is not None:
            limits.turnstile.note_admitted(self._place)
        limits.make_room(self._needed_bytes(turn), 0)  # the prefix cache gives way
        events += self._announce(turn.bundle)
        self._at_work.note(self, frozenset(one.request_id for one in turn.bundle))
        started = self._clock()
        try:
            with self._vitals.stall.working(self._expected_seconds(turn, seconds)):
                results = self._compute(turn)
        # A failure ends the request that caused it, and only that one.
        except Exception as error:
            self._at_work.note(self, _NOBODY)
            return events + self._recover(turn.bundle, error, limits)
        self._at_work.note(self, _NOBODY)
        self._learn(turn, self._clock() - started, others)
        return events + self._answer(turn.bundle, results)

    def _decide(self, seconds: float, limits: Limits) -> Turn | None:
        """A long row shares its turns with what fits into one, and beside it. None: what is next
        waits for others' rows."""
        width = self._width(seconds, limits)
        bundle = self._next_bundle(seconds, width, limits)
        if bundle and self._may_begin(bundle, seconds, limits):
            return Turn.of(bundle, width)
        return None if self._long is None else self._next_piece(self._long, seconds, limits)

    def _next_bundle(self, seconds: float, width: int, limits: Limits) -> tuple[Input, ...]:
        if self._long is None and self._suspects:
            return (self._suspects[0],)
        pending = [live.pending for live in self._live.values()]
        if self._long is not None:
            # Not the row itself either: turns may have become longer since it was begun.
            beside = (one.shorter(width, but=self._long.input) for one in pending)
            pending = [one for one in beside if one.inputs and not self._long.is_due]
        if not pending:
            return ()
        return plan_bundle(
            pending,
            cost=self._cost,
            seconds=seconds,
            now=self._clock(),
            max_rows=self.pace.max_rows,
            fits=lambda *size: self._bundle_bytes(*size) <= limits.room_bytes,
        )

    def _may_begin(self, bundle: tuple[Input, ...], seconds: float, limits: Limits) -> bool:
        """What does not fit beside rows, in a turn as long as its time allows, waits for them. With
        nobody there it goes on: it is as small as it can be."""
        if limits.is_quiet and self._long is None:
            return True
        turn = Turn.of(bundle, self._width(seconds))
        if turn.is_piece:  # it goes on to its end
            turn = dataclasses.replace(turn, start=len(bundle[0].token_ids) - turn.width)
        return limits.has_room(self._held_bytes(turn) + self._needed_bytes(turn))

    def _next_piece(self, long: _Long, seconds: float, limits: Limits) -> Turn:
        """It goes on whatever memory there is: its end gives most of it back."""
        start = long.row.num_computed
        width = min(self._width(seconds, limits, context=start), long.row.num_left)
        return Turn(bundle=(long.input,), width=width, start=start, is_piece=True)

    def _width(self, seconds: float, limits: Limits = NO_LIMITS, *, context: int = 0) -> int:
        """How many tokens of one row fit into a turn, and into memory."""
        at_most = self.pace.most_slice_tokens
        if self._estimate is not None:
            at_most = self._estimate.most_slice_tokens(
                limits.room_bytes, context_tokens=context, at_most=at_most
            )
        return self._cost.most_tokens(
            seconds=seconds,
            context=context,
            at_most=at_most,
            at_least=min(at_most, self.pace.least_slice_tokens),
        )

    def _held_bytes(self, turn: Turn) -> int:
        """Of what a long row has computed before."""
        return self._estimate.row_bytes(turn.start) if self._estimate else 0

    def _needed_bytes(self, turn: Turn) -> int:
        if not turn.is_piece or self._estimate is None:
            return self._bundle_bytes(len(turn.bundle), turn.width)
        (one,) = turn.bundle
        return self._estimate.piece_bytes(turn.width, turn.start, of_tokens=len(one.token_ids))

    def _bundle_bytes(self, num_rows: int, num_tokens: int) -> int:
        return self._estimate.bundle_bytes(num_rows, num_tokens) if self._estimate else 0

    def _compute(self, turn: Turn) -> Sequence[Any] | None:
        """The results, if they are ready."""
        if self._long is not None:
            self._long.is_due = not turn.is_piece
        if not turn.is_piece:
            return self._runner.run([one.token_ids for one in turn.bundle])
        (one,) = turn.bundle
        long = self._long or _Long(one, self._runner.begin(one.token_ids))
        assert long.input is one, "nobody gets what another's text gives"
        results = self._runner.go_on(long.row, turn.width)
        self._long = long if results is None else None
        return results

    def _expected_seconds(self, turn: Turn, seconds: float) -> float:
        predicted = self._cost.predict(turn.width, start=turn.start, rows=len(turn.bundle))
        return min(predicted, seconds) + FIRST_USE_SECONDS

    def _learn(self, turn: Turn, seconds: float, others: Pace | None) -> None:
        self.last_used_at = self._clock()
        self._has_given_all = False
        context = turn.start + turn.width / 2
        self._cost.learn(tokens=turn.num_tokens, context=context, seconds=seconds)
        if others is not None:
            self._ledger.book_slice(seconds, share=others.decode_share)
        self._vitals.note_progress(prefilled_tokens=turn.num_tokens)

    def _announce(self, bundle: tuple[Input, ...]) -> Events:
        now = self._wall_clock()
        ids = dict.fromkeys(one.request_id for one in bundle)
        return [(id, event) for id in ids for event in self._live[id].start(now=now)]

    def _answer(self, bundle: tuple[Input, ...], results: Sequence[Any] | None) -> Events:
        if results is None:
            return []
        events: Events = []
        for one, result in zip(bundle, results, strict=True):
            if (live := self._live.get(one.request_id)) is None:
                continue  # another input of its request has failed
            try:
                events += self._add(live, one, result)
            except UndefinedNumbers as error:
                events += self._fail(live, error)
        return events

    def _add(self, live: VectorRequest, one: Input, result: Any) -> Events:
        event = self._runner.event(result, place=one.place, dimensions=live.work.dimensions)
        added = live.add(one, event, now=self._wall_clock())
        if not live.pending.inputs:
            self._forget(one.request_id)
        elif one in self._suspects:
            self._suspects.remove(one)
        return [(one.request_id, each) for each in added]

    def _recover(self, bundle: tuple[Input, ...], error: Exception, limits: Limits) -> Events:
        logger.warning("bundle failed", extra={"model": self.spec.name}, exc_info=error)
        self._long = None
        self._vitals.note_progress()
        if is_out_of_memory(error) and not self._has_given_all:
            self._has_given_all = True
            limits.give_all()
            return []
        if len(bundle) > 1:
            self._suspects = list(bundle)
            return []
        return self._fail(self._live[bundle[0].request_id], error)

    def _fail(self, live: VectorRequest, error: Exception) -> Events:
        self._forget(live.request_id)
        request_id, model = live.request_id, self.spec.name
        failed = engine_error(request_id, model=model, usage=live.usage, error=error)
        return [(request_id, failed)]

    def _end_overdue(self) -> Events:
        now = self._wall_clock()
        overdue = [live for live in self._live.values() if live.is_overdue(now)]
        for live in overdue:
            self._forget(live.request_id)
        code, detail = wire.Code.DEADLINE_EXCEEDED, "The request's deadline has passed."
        return [
            (live.request_id, wire.Failed(code=code, detail=detail, usage=live.usage))
            for live in overdue
        ]

    def _forget(self, request_id: str) -> VectorRequest | None:
        self._suspects = [one for one in self._suspects if one.request_id != request_id]
        if self._long is not None and self._long.input.request_id == request_id:
            self._long = None
        live = self._live.pop(request_id, None)
        if not self._live:
            self._ledger.leave_line(self)
        return live

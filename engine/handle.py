"""A loaded model with the requests that it serves: one turn is schedule, run, update.

It does not know the transport, other models, or how the weights came here. Owner: model thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from engine import wire
from engine.at_work import AtWork, StepNotes
from engine.core.cost import CostModel
from engine.core.delivery import Delivery
from engine.core.limits import NO_LIMITS, Limits
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.step import Drawn, Outcome, Step, StepRunner, UndefinedNumbers
from engine.disk_waits import DiskWaits
from engine.faults import engine_error
from engine.keeping import Keeping
from engine.live_request import LiveRequest, Voice
from engine.metrics import Vitals
from engine.row_memory import RowMemory
from engine.safe_reuse import Reuse
from engine.sizing.estimate import Estimate
from engine.sizing.exhaustion import is_out_of_memory

Events = list[tuple[str, wire.Event]]
logger = logging.getLogger(__name__)


class ModelHandle:
    def __init__(
        self,
        spec: wire.ModelSpec,
        *,
        runner: StepRunner,
        voice: Voice,
        ledger: TimeLedger,
        vitals: Vitals,
        reuse: Reuse | None = None,
        estimate: Estimate | None = None,
        cost: CostModel | None = None,
        weight_bytes: int = 0,
        context_limit_tokens: int = 0,
        is_batchable: bool = True,
        at_work: AtWork | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ):
        self.weight_bytes = weight_bytes
        self.is_batchable = is_batchable
        self._context_limit_tokens = context_limit_tokens
        self._runner = runner
        self._voice = voice
        self._vitals = vitals
        self._clock = clock
        self._wall_clock = wall_clock
        self._reuse = reuse
        self._live: dict[str, LiveRequest] = {}
        self._keeping = Keeping(reuse, self._find_live)
        self._is_ahead = False  # the turn before told first tokens and had no step
        self._has_given_all = False  # the device took no more, and no token was drawn since
        self.spec = spec
        self.scheduler = Scheduler(
            Pace.of(spec, may_batch=is_batchable),
            ledger,
            slices_on_grid=runner.slices_on_grid,
            may_draft=runner.draft_memory is not None,
            tower_layers=runner.tower_layers,
            drawing_share=runner.drawing_share,
            cost=cost,
        )
        self._disk_waits = DiskWaits(reuse, self.scheduler, clock)
        self.memory = RowMemory(estimate, self.scheduler, runner)
        self._notes = StepNotes(at_work or AtWork(), self.scheduler.find_request_id)
        self.last_used_at = clock()

    @property
    def is_idle(self) -> bool:
        return self.scheduler.is_idle and not self._disk_waits

    @property
    def only_waits(self) -> bool:
        """Nothing to compute until the disk has answered, or has had its time, or grammars are
        compiled."""
        scheduler = self.scheduler
        return (bool(self._disk_waits) and scheduler.is_idle) or scheduler.awaits_grammars

    @property
    def is_decoding(self) -> bool:
        return self.scheduler.is_decoding

    @property
    def awaits_first_token(self) -> bool:
        """Or reads a prompt again, whose row was taken away."""
        return self.scheduler.has_prompts or any(not one.has_drawn for one in self._live.values())

    @property
    def row_bytes(self) -> int:
        """What its rows' caches hold, and what drafting does."""
        drafting = self._runner.draft_memory
        return self._runner.num_bytes + (drafting.held_bytes if drafting else 0)

    @property
    def num_live(self) -> int:
        return len(self._live)

    @property
    def pace(self) -> Pace:
        return self.scheduler.pace

    @property
    def status(self) -> wire.ModelStatus:
        return wire.ModelStatus(
            name=self.spec.name,
            state="loaded",
            weight_bytes=self.weight_bytes,
            context_limit_tokens=self.spec.context_limit_tokens or self._context_limit_tokens,
            is_batchable=self.is_batchable,
            wants_boundaries=self._reuse is not None and self._reuse.wants_boundaries,
            drafted_tokens=self.scheduler.drafting.num_drafted,
            accepted_tokens=self.scheduler.drafting.num_right,
        )

    def configure(self, spec: wire.ModelSpec) -> None:
        """New settings count from the next turn on."""
        self.spec = spec
        self.scheduler.pace = Pace.of(spec, may_batch=self.is_batchable)
        self.memory.forget_bound()
        if self._reuse is not None:
            self._reuse.spec = spec

    def row_statuses(self) -> tuple[wire.RowStatus, ...]:
        now = self._wall_clock()
        return tuple(live.row_status(now=now) for live in self._live.values())

    def forget_owner(self, owner: bytes) -> None:
        self._keeping.forget_owner(owner, self._live.values())

    def get_live(self, request_id: str) -> LiveRequest | None:
        return self._live.get(request_id)

    def add(self, delivery: Delivery, *, load_seconds: float = 0.0) -> Events:
        """Take a request in. One that turns out to be complete already ends at once."""
        request_id = delivery.work.request_id
        try:
            with self._notes.taking_in(request_id):
                return self._take_in(delivery, load_seconds)
        # What was delivered of it may not become text again, for example.
        except Exception as error:
            self._forget(request_id)
            return self._failed(request_id, delivery.usage, error)

    def _take_in(self, delivery: Delivery, load_seconds: float) -> Events:
        live = LiveRequest(
            delivery,
            self._voice.stream(delivery.work),
            end_token_ids=self._voice.end_token_ids,
            arrived_at=self._clock(),
            load_seconds=load_seconds,
        )
        if live.answer.ending:
            return [(live.request_id, live.finished())]
        live.sequence.grammar = self._voice.grammar(delivery.work)
        self._live[live.request_id] = live
        self._disk_waits.enter(live)
        return []

    def fetched(self, request_id: str) -> Events:
        """What the disk had of its prompt is in memory, or is not to be had."""
        live = self._live.get(request_id)
        if live is None or self._reuse is None or self._disk_waits.end_reading(live):
            return []
        if live.sequence.status is not Status.PREFILLING:
            return []
        return self._fill(live, self._reuse.open_late, self._reuse.go_on)

    def cancel(self, request_id: str) -> Events:
        """The row computes nothing more from the next step on."""
        if (live := self._forget(request_id)) is None:
            return []
        try:
            return [(request_id, event) for event in live.cancel()]
        # Text that was held back cannot be made.
        except Exception as error:
            return self._fail(live, error)

    def drop(self, request_id: str) -> None:
        """As cancel, but another engine has the request now: nothing is said."""
        self._forget(request_id)

    @property
    def has_rows(self) -> bool:
        return self.scheduler.has_rows

    @property
    def newest_row(self) -> LiveRequest | None:
        """The row that memory is taken from first."""
        rows = (self._live.get(one.request_id) for one in self.scheduler.rows)
        return max(filter(None, rows), key=lambda live: live.sequence.arrived_at, default=None)

    def preempt(self, live: LiveRequest) -> Events:
        """Take its row away; what that computed is kept as far as the cache has room. On disk at
        once: memory is short, and what the cache has there may be the next to go."""
        if self._reuse is not None:
            self._reuse.keep_row(live)
            self._reuse.persist(at_once=True)
            live.is_kept = False  # there will be another row to keep
        self.scheduler.preempt(live.sequence)
        return [(live.request_id, live.pause())] if live.has_started else []

    def end(self, live: LiveRequest, code: wire.Code, detail: str) -> Events:
        """It fails, and says why."""
        self._forget(live.request_id)
        return [(live.request_id, live.failed(code, detail))]

    def give_back(self) -> list[Delivery]:
        """All its requests, as they are to be delivered again: this model has to go."""
        lives = list(self._live.values())
        for live in lives:
            self._forget(live.request_id)
        self._notes.clear()
        return [live.put_off() for live in lives]

    def persist(self) -> None:
        """Once a turn, also when idle: hand ended turns to the disk's writer."""
        if self._reuse is not None:
            self._reuse.persist()

    def turn(self, *, others: Pace | None = None, limits: Limits = NO_LIMITS) -> Events:
        """Decide a step, run it, learn what the step before has drawn."""
        events = self._end_overdue() + self._end_rejected()
        self._disk_waits.end_patience()
        opened = self._admit(limits)
        events += opened
        self._is_ahead = bool(opened) and not self._is_ahead
        if self._is_ahead:  # who waits for it hears it before a step is computed, but rows go on
            return events
        fitting = self.memory.limit(self.spec, limits, may_batch=self.is_batchable)
        step = self.scheduler.schedule(now=self._clock(), others=others, fitting=fitting)
        self.memory.make_room(step, limits, kept_lengths=self._keeping.lengths)
        events += self._start(self._lives_of(step.entering_row_ids), self._wall_clock())
        self._notes.begin(step)
        try:
            with self._vitals.stall.working(self.scheduler.expected_seconds):
                self._keeping.before(step)
                outcomes = self._runner.run(step)
                self._keeping.after(step)
        # A step's failure ends the request that caused it, and only that one.
        except Exception as error:
            return events + self._recover(step, error, limits)
        return events + [event for outcome in outcomes for event in self._update(outcome)]

    def _admit(self, limits: Limits) -> Events:
        """What rows begin with that need nothing computed for their first token."""
        events: Events = []
        if not self.scheduler.may_admit:
            return events
        for sequence in self.scheduler.admit(self.memory.admission(limits).may_admit):
            live = self._live[sequence.request_id]
            if live.is_paused:
                self._disk_waits.read(live)  # what memory has lost; the row computes meanwhile
            if self._reuse is not None:
                events += self._fill(live, self._reuse.open, self._reuse.restore)
        return events

    def _fill(
        self,
        live: LiveRequest,
        draw: Callable[[LiveRequest], Drawn | None],
        fill: Callable[[LiveRequest], None],
    ) -> Events:
        """Its row, with what is kept; what of its answer that tells at once."""
        with self._notes.filling(live.sequence):
            if (drawn := draw(live)) is not None:
                live.sequence.take(drawn.token_id)  # the row is complete without what draws it
            fill(live)
        if drawn is None:
            return []
        now, self.last_used_at = self._wall_clock(), self._clock()
        self._vitals.note_progress(decoded_tokens=1)
        return self._start([live], now) + self._add_token(live.sequence, drawn, now=now)

    def _find_live(self, row_id: int) -> LiveRequest | None:
        request_id = self.scheduler.find_request_id(row_id)
        return self._live[request_id] if request_id is not None else None

    def _start(self, lives: Iterable[LiveRequest], now: float) -> Events:
        begun = (live for live in lives if not live.has_started or live.is_paused)
        return [(live.request_id, live.start(now=now)) for live in begun]

    def _lives_of(self, row_ids: Iterable[int]) -> Iterator[LiveRequest]:
        return filter(None, map(self._find_live, row_ids))

    def _update(self, outcome: Outcome) -> Events:
        self.last_used_at = self._clock()
        self._has_given_all &= not outcome.drawn
        events = self._prefilled(outcome.step)
        now = self._wall_clock()
        for sequence, drawn in self.scheduler.update(outcome):
            events += self._add_token(sequence, drawn, now=now)
        self._vitals.note_progress(
            decoded_tokens=len(outcome.drawn),
            prefilled_tokens=sum(one.num_tokens for one in outcome.step.slices),
        )
        return events

    def _prefilled(self, step: Step) -> Events:
        return [
            (live.request_id, live.prefilled(one.stop_tokens))
            for one in step.slices
            if one.width
            for live in self._lives_of(one.row_ids)
        ]

    def _add_token(self, sequence: Sequence, drawn: Drawn, *, now: float) -> Events:
        live = self._live[sequence.request_id]
        if drawn.is_undefined:
            return self._fail(live, UndefinedNumbers())
        if drawn.fault is not None:
            return self._reject(live, drawn.fault)
        try:
            added = live.add(drawn, now=now)
        # Text that cannot be made of a token ends its own request.
        except Exception as error:
            return self._fail(live, error)
        if live.answer.ending:
            self._forget(live.request_id)
        return [(live.request_id, event) for event in added]

    def _recover(self, step: Step, error: Exception, limits: Limits) -> Events:
        logger.warning(
            "step failed", extra={"model": self.spec.name, "error": repr(error)}, exc_info=error
        )
        self._runner.reset()
        self._keeping.clear()
        culprit = self.scheduler.restart(step)
        self._vitals.note_progress()
        if is_out_of_memory(error) and not self._has_given_all:
            self._has_given_all = True
            limits.give_all()
            return []
        return [] if culprit is None else self._fail(self._live[culprit.request_id], error)

    def _fail(self, live: LiveRequest, error: Exception) -> Events:
        live.is_kept = True  # nothing that its row computed is worth keeping,
        self._keeping.distrust(live)  # nor what it was filled from
        self._forget(live.request_id)
        return self._failed(live.request_id, live.usage, error)

    def _failed(self, request_id: str, usage: wire.Usage, error: Exception) -> Events:
        failed = engine_error(request_id, model=self.spec.name, usage=usage, error=error)
        return [(request_id, failed)]

    def _end_overdue(self) -> Events:
        now = self._wall_clock()
        overdue = [live for live in self._live.values() if live.is_overdue(now)]
        code, detail = wire.Code.DEADLINE_EXCEEDED, "The request's deadline has passed."
        return [event for live in overdue for event in self.end(live, code, detail)]

    def _end_rejected(self) -> Events:
        """Requests whose grammars this model cannot be held to."""
        held = [(one, g) for one in self._live.values() if (g := one.sequence.grammar) is not None]
        self._notes.compile(live.request_id for live, grammar in held if not grammar.is_ready)
        rejected = ((live, reason) for live, one in held if (reason := one.rejection) is not None)
        return [event for pair in rejected for event in self._reject(*pair)]

    def _reject(self, live: LiveRequest, reason: str) -> Events:
        detail = f"This model cannot be held to the request's grammar: {reason[:300]}"
        return self.end(live, wire.Code.INVALID_VALUE, detail)

    def _forget(self, request_id: str) -> LiveRequest | None:
        """Its row leaves in the next step; until then what it holds can be kept."""
        live = self._live.pop(request_id, None)
        if live is None:
            return None
        if not self._disk_waits.leave(request_id):
            self.scheduler.finish(live.sequence)
        self._keeping.depart(live)
        return live

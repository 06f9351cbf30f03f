"""Which rows compute what in the next step. Pure: it sees numbers, never tensors, clocks or queues.

    waiting --admit--> prefilling --last slice--> (ready) --join--> decoding --finish--> gone
       ^---------- preempt ----------'-------------------------------'

Invariants (tests/engine/core/test_simulation.py holds them):
- a row's tokens are computed once, in order, and the last known one by the call that draws;
- a row leaves the batch in the first step after its end, its cancel, or its last draw;
- a slice is decided only when no other slice is still being computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from engine.core.bisection import Bisection
from engine.core.cost import CostModel
from engine.core.expectation import Expectation
from engine.core.guests import Holders, Invitation, most_guests
from engine.core.limits import ALL_FITS, Fitting
from engine.core.pacing import Pace, TimeLedger
from engine.core.sequence import Sequence, Status
from engine.core.slicing import EFFICIENT_ON_GRID_TOKENS, EFFICIENT_TOKENS, plan_slices, with_room
from engine.core.step import Drawn, Outcome, Step


class Scheduler:
    """The rows of one model. Three verbs: schedule a step, let the runner run it, update."""

    def __init__(
        self,
        pace: Pace,
        ledger: TimeLedger,
        *,
        slices_on_grid: bool = False,
        tower_layers: int = 1,
        drawing_share: float | None = None,
        cost: CostModel | None = None,
    ):
        """`slices_on_grid`, `tower_layers` and `drawing_share` as the runner has them. `cost`: what
        is known of slices."""
        self.pace = pace
        self._slices_on_grid = slices_on_grid
        self._tower_layers = tower_layers
        self._drawing_share = drawing_share
        self.cost = cost or CostModel()
        self._ledger = ledger
        self._expectation = Expectation(self.cost, ledger)
        self._bisection = Bisection()
        self.num_admitted = 0  # ever
        self._live: dict[int, Sequence] = {}  # by row_id: admitted, not finished
        self._holders = Holders()  # of their rows
        self._waiting: list[Sequence] = []
        self._prefilling: list[Sequence] = []
        self._batch: list[Sequence] = []
        self._gone: list[int] = []
        self._in_flight: list[Step] = []
        self._others: Pace | None = None  # as schedule() was told last
        self._read_newcomers = False  # in the slice before

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._live or self._gone or self._in_flight)

    @property
    def is_decoding(self) -> bool:
        return any(sequence.may_draw for sequence in self._batch)

    @property
    def awaits_grammars(self) -> bool:
        """All that is left to do is done elsewhere: grammars of complete prompts are compiled."""
        if self._waiting or self._batch or self._gone or self._in_flight:
            return False
        rows = self._prefilling
        return bool(rows) and not any(one.slice_tokens_left > 0 or one.may_join for one in rows)

    def find_request_id(self, row_id: int) -> str | None:
        """Whose row it is; None if it has ended meanwhile."""
        sequence = self._live.get(row_id)
        return sequence.request_id if sequence is not None else None

    def add(self, sequence: Sequence) -> None:
        sequence.status = Status.WAITING
        self._waiting.append(sequence)

    def finish(self, sequence: Sequence) -> None:
        """The row computes nothing more, for whatever reason; it leaves in the next step."""
        sequence.status = Status.FINISHED
        self._bisection.clear(sequence.request_id)
        if sequence in self._waiting:
            self._waiting.remove(sequence)
            return
        self._take_row(sequence)

    @property
    def rows(self) -> list[Sequence]:
        """Those that can be preempted: they hold memory and have something left to compute."""
        return [*self._prefilling, *(one for one in self._batch if one.may_draw)]

    @property
    def may_admit(self) -> bool:
        """Somebody waits, and there is a row to give."""
        has_row = len(self._live) < self.pace.max_rows or self.invitation is not None
        return bool(self._waiting) and has_row

    @property
    def changes_batch(self) -> bool:
        """Rows have yet to join it, or leave it next."""
        if self._prefilling or self._gone:
            return True
        return not all(one.may_draw for one in self._batch)

    @property
    def has_rows(self) -> bool:
        return bool(self._prefilling) or self.is_decoding

    def preempt(self, sequence: Sequence) -> None:
        """Take away the row of one of `rows`: its request waits in front and goes on from its
        tokens. The row leaves in the next step."""
        self._take_row(sequence)
        self._wait_again([sequence])

    @property
    def has_prompts(self) -> bool:
        return any(one.slice_tokens_left > 0 for one in self._prefilling)

    def schedule(
        self, *, now: float, others: Pace | None = None, fitting: Fitting = ALL_FITS
    ) -> Step:
        """The next step. `others`: what is promised to rows of other models that decode now, for
        they wait for a slice as well."""
        self._others = others
        most_joins = fitting.most_joins if self._batch else max(1, fitting.most_joins)
        ready = [one for one in self._prefilling if one.may_join][:most_joins]
        prompts = [one for one in self._prefilling if one.slice_tokens_left > 0]
        if fitting.no_room_for:
            readable = with_room(prompts, fitting.no_room_for, cost=self.cost, now=now)
            prompts = readable if readable or self.is_decoding or ready else prompts
        someone_decodes = others is not None or self.is_decoding or bool(ready)
        in_turn = self._in_turn(prompts, ready, someone_decodes=someone_decodes) if prompts else []
        if in_turn or not prompts:
            self._ledger.leave_line(self)
        if in_turn:
            step = self._slice_step(in_turn, now=now, someone_decodes=someone_decodes)
        else:
            step = self._decode_step(ready)
        if step.computed_row_ids:
            self._in_flight.append(step)
            self._ledger.note_in_flight(step, 1)
        return step

    def update(self, outcome: Outcome) -> list[tuple[Sequence, Drawn]]:
        """Learn from a computed step; the tokens drawn for rows that still live."""
        self._in_flight.remove(outcome.step)
        self._ledger.note_in_flight(outcome.step, -1)
        self._expectation.note_ended(outcome.step)
        self._learn(outcome)
        drawn = []
        for one in outcome.drawn:
            if (sequence := self._live.get(one.row_id)) is not None:
                sequence.token_ids.append(one.token_id)
                if outcome.step.decodes:  # a slice says nothing of how the row fares in the batch
                    self._bisection.clear(sequence.request_id)
                drawn.append((sequence, one))
        return drawn

    def restart(self, failed: Step) -> Sequence | None:
        """A step failed and the device's state is void: every row starts again from its tokens.

        Returns the culprit once it is proven. The caller finishes it.
        """
        row_ids = {
            row_id for step in [*self._in_flight, failed] for row_id in step.computed_row_ids
        }
        rows = [self._live[row_id] for row_id in row_ids if row_id in self._live]
        culprit = self._bisection.report_failure(one.request_id for one in rows)
        self._wait_again(self._live.values())
        for step in self._in_flight:
            self._ledger.note_in_flight(step, -1)
        self._live, self._prefilling, self._batch = {}, [], []
        self._holders.clear()
        self._gone, self._in_flight = [], []
        return next((one for one in rows if one.request_id == culprit), None)

    def admit(self, may_admit: Callable[[Sequence], bool] = lambda _: True) -> list[Sequence]:
        """Give waiting requests their rows, as many as there are; before each schedule().

        One that `may_admit` refuses stands in nobody's way. The caller may fill a new row from a
        cache: then it sets `computed_tokens`.
        """
        admitted: list[Sequence] = []
        invitation = self.invitation
        for sequence in list(self._waiting):
            if len(self._live) >= self.pace.max_rows:
                if invitation is None:
                    break
                if not invitation.is_for(sequence):
                    continue
            if self._bisection.may_run(sequence.request_id) and may_admit(sequence):
                self._waiting.remove(sequence)
                self._give_row(sequence)
                admitted.append(sequence)
                invitation = self.invitation
        return admitted

    @property
    def invitation(self) -> Invitation | None:
        """Whom one more row is for, when all are taken."""
        max_rows = self.pace.max_rows
        is_full = len(self._live) >= max_rows + most_guests(max_rows)
        return None if is_full else self._holders.invitation

    def _give_row(self, sequence: Sequence) -> None:
        sequence.status = Status.PREFILLING
        sequence.row_id = self.num_admitted
        self.num_admitted += 1
        self._live[sequence.row_id] = sequence
        self._holders.add(sequence)
        self._prefilling.append(sequence)

    def _take_row(self, sequence: Sequence) -> None:
        assert sequence.row_id is not None
        self._live.pop(sequence.row_id)
        self._holders.remove(sequence)
        for rows in (self._prefilling, self._batch):
            if sequence in rows:
                rows.remove(sequence)
                if sequence.computed_tokens > 0 or sequence.looked_share > 0:
                    self._gone.append(sequence.row_id)

    def _wait_again(self, sequences: Iterable[Sequence]) -> None:
        """In front, with others who have lost their rows, in the order of their arrival."""
        for sequence in sequences:
            sequence.forget_computed()
            self._waiting.append(sequence)
        self._waiting.sort(key=lambda one: one.arrived_at if one.has_lost_row else inf)

    def _in_turn(
        self, prompts: list[Sequence], ready: list[Sequence], *, someone_decodes: bool
    ) -> list[Sequence]:
        """Those that are read now; none where it is the running rows' turn."""
        if not someone_decodes:
            self._ledger.forgive()
            return self._newcomers_or_all(prompts)
        # A ready row is one batch call away from its first token, if no slice has drawn that.
        if not all(one.num_drawn for one in ready) or not self._ledger.stand_in_line(self):
            return []
        # What the slice in flight will owe is known when it is measured; rows decode meanwhile.
        if self._ledger.num_slices_in_flight and self.decode_share > 0:
            return []
        if ready or self._ledger.owes_decode:
            return self._newcomers(prompts)
        return prompts if self.decode_share > 0 else self._newcomers_or_all(prompts)

    def _newcomers_or_all(self, prompts: list[Sequence]) -> list[Sequence]:
        """In turns, where nothing is owed between which newcomers would come: nobody waits for all
        that others have sent, nor they for ever for newcomers."""
        may_pass = not self._read_newcomers and not all(map(self._is_newcomer, prompts))
        newcomers = self._newcomers(prompts) if may_pass else []
        self._read_newcomers = bool(newcomers)
        return newcomers or prompts

    def _newcomers(self, prompts: list[Sequence]) -> list[Sequence]:
        """As many as rows that decode may wait for: they are owed for other people's."""
        most, seconds = self._stall_seconds / (1 + self.cost.spread), 0.0
        chosen = []
        for one in filter(self._is_newcomer, prompts):
            seconds += self._seconds_from(one, one.computed_tokens)
            if not self._ledger.may_wait(seconds, most=most):
                break
            chosen.append(one)
        return chosen

    @property
    def _stall_seconds(self) -> float:
        """As things stand, of all models."""
        of_others = self._others.stall_seconds if self._others is not None else inf
        return min(self.pace.stall_seconds, of_others)

    @property
    def decode_share(self) -> float:
        """The running rows' part of the time, as things stand, of all models."""
        of_others = self._others.decode_share if self._others is not None else 0.0
        if not self.is_decoding:
            return of_others
        short = [
            one for one in self._prefilling if one.slice_tokens_left > 0 and self._is_short(one)
        ]
        own = self.pace.share(num_decoding=len(self._batch), num_short_prompts=len(short))
        return max(own, of_others)

    def _is_newcomer(self, prompt: Sequence) -> bool:
        """A short one of a tenant without another row."""
        return self._holders.is_newcomer(prompt) and self._is_short(prompt)

    def _seconds_from(self, prompt: Sequence, start: int) -> float:
        """To read it from there on."""
        stop = len(prompt.token_ids) - 1
        images = prompt.images_left(start, stop)
        return self.cost.predict(stop - start, start=start, images=images)

    def _is_short(self, prompt: Sequence) -> bool:
        """Whether all that is computed of it here fits a stall; what is left of a long one does
        not make it short."""
        tokens = prompt.sliced_tokens + prompt.slice_tokens_left
        seconds = self._seconds_from(prompt, prompt.computed_tokens - prompt.sliced_tokens)
        return tokens <= self.cost.trusted_tokens and seconds <= self.pace.stall_seconds

    @property
    def _has_slice_in_flight(self) -> bool:
        return any(step.slices for step in self._in_flight)

    def _slice_step(self, prompts: list[Sequence], *, now: float, someone_decodes: bool) -> Step:
        pace = self.pace
        if self._has_slice_in_flight:
            return Step(leaves=self._take_leaves(), most_row_bytes=pace.most_row_bytes)
        seconds = pace.turn_seconds(someone_decodes=someone_decodes)
        if self._others is not None:
            seconds = min(seconds, self._others.stall_seconds)
        if someone_decodes:
            seconds /= 1 + self.cost.spread
            pace = pace.within(self.cost.trusted_tokens)
        if len(prompts) == 1 and not someone_decodes:
            tokens = EFFICIENT_ON_GRID_TOKENS if self._slices_on_grid else EFFICIENT_TOKENS
            efficient = self.cost.predict(tokens, start=prompts[0].computed_tokens)
            seconds = pace.lone_seconds(efficient_seconds=efficient)
        slices = plan_slices(
            prompts,
            cost=self.cost,
            pace=pace,
            seconds=seconds,
            now=now,
            on_grid=self._slices_on_grid,
            tower_layers=self._tower_layers,
            drawing_seconds=self._drawing_seconds,
        )
        leaves = self._take_leaves()
        return Step(leaves=leaves, slices=slices, most_row_bytes=pace.most_row_bytes)

    @property
    def _drawing_seconds(self) -> float:
        """How long a slice may take that draws: one that is longer is drawn out more by it than a
        decode step takes, which draws as well."""
        if self._drawing_share is None:
            return 0.0
        return self._ledger.decode_seconds / self._drawing_share if self._drawing_share else inf

    @property
    def expected_seconds(self) -> float:
        """Of all that the device has not finished."""
        return self._expectation.seconds(self._in_flight)

    def _decode_step(self, ready: list[Sequence]) -> Step:
        leaves = self._take_leaves()
        for sequence in ready:
            self._prefilling.remove(sequence)
            self._batch.append(sequence)
            sequence.status = Status.DECODING
        joins = tuple(sequence.join for sequence in ready)
        for sequence in self._batch:
            sequence.num_drawn += 1
            sequence.computed_tokens += 1
        return Step(
            leaves=leaves,
            joins=joins,
            decodes=_row_ids(self._batch),
            most_row_bytes=self.pace.most_row_bytes,
        )

    def _take_leaves(self) -> tuple[int, ...]:
        """Rows that have ended, and rows whose last token is already being drawn."""
        done = [one for one in self._batch if not one.may_draw]
        self._batch = [one for one in self._batch if one.may_draw]
        leaves = (*self._gone, *_row_ids(done))
        self._gone = []
        return leaves

    def _learn(self, outcome: Outcome) -> None:
        if outcome.step.decodes:
            self._ledger.book_decode(outcome.seconds)
            return
        if self.is_decoding or self._others is not None:
            self._ledger.book_slice(outcome.seconds, share=self.decode_share)
        slices = outcome.step.slices
        if num_images := sum(one.look_share for one in slices):
            read = [one for one in slices if one.width]
            reading = sum(self.cost.predict(one.width, start=one.start_tokens) for one in read)
            self.cost.learn_images(num_images, seconds=outcome.seconds - reading)
            return
        tokens = [(one.num_tokens, one.mean_context) for one in slices]
        self.cost.learn_turn(tokens, seconds=outcome.seconds)


def _row_ids(sequences: Iterable[Sequence]) -> tuple[int, ...]:
    return tuple(one.row_id for one in sequences if one.row_id is not None)

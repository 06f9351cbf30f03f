"""Runs steps on the device: rows leave, then slices, or joins, a batch call and a draw for all.

The device works one step ahead of the host: run() submits a step and returns the outcome of the
one before. On a CPU slices and first tokens are told at once, not a step later: most is computed
while it is submitted. It does not know requests, text or policy.
Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from engine.cache.captures import Payload
from engine.core.step import DraftMemory, Drawn, Group, Join, Outcome, Slice, Step
from engine.model import caches as row_caches
from engine.model import kernels, snapshots
from engine.model.batch import NewRow
from engine.model.block_copies import TokenSpan
from engine.model.caches import Apart, Caches
from engine.model.drawing import Draw, sampled_row, submit_draw, submit_first_draw
from engine.model.grouped_batch import GroupedBatch, pass_bytes_of
from engine.model.reading import Reader
from engine.model.rewinding import may_rewind
from engine.model.sampling import BatchSampler, SampledRow, idle_row
from engine.model.snapshots import Snapshot
from engine.model.verifying import Drafter, Verification, Verifier
from engine.model.vision.sight import Looks, Sight


@dataclasses.dataclass(frozen=True, slots=True)
class _Prefilled:
    """A row that is not in the batch yet: its caches hold `num_tokens`."""

    caches: Caches
    num_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Submitted:
    step: Step
    submitted_at: float
    draws: tuple[Draw, ...] = ()
    sliced: tuple[Caches, ...] = ()
    verification: Verification | None = None


class Runner:
    _foreseen: tuple[Step, tuple[Group, ...]] | None  # the batches after a step

    def __init__(
        self,
        model: Any,
        *,
        token_bytes: Callable[[int], bytes],
        decode: Callable[..., mx.array] | None = None,
        new_caches: Callable[[], Caches] | None = None,
        drafter: Drafter | None = None,
        sight: Sight | None = None,
        runs_ahead: bool | None = None,
        together_bytes: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ):
        """`decode`: what computes decode steps, `new_caches`: how an empty row is made; None means
        the model does. `sight`: what reads slices with images. `runs_ahead`: None means where the
        device computes beside the host. `together_bytes`: so much of what is copied may be alive
        twice."""
        on_cpu = mx.default_device() == mx.Device(mx.cpu)
        self._runs_ahead = not on_cpu if runs_ahead is None else runs_ahead
        self._stacks = not on_cpu
        self._model, self._decode = model, decode or model
        self._computes_at_once = getattr(self._decode, "computes_at_once", lambda num_rows: False)
        self._new_caches = new_caches or partial(row_caches.new_caches, model)
        self._token_bytes = token_bytes
        self._clock = clock
        self._last_outcome_at = 0.0
        self._pass_bytes = pass_bytes_of(model)
        self._together_bytes = together_bytes
        self._reader = Reader(model, getattr(self._decode, "slice_body", None))
        self._drafter = drafter if may_rewind(self._new_caches()) else None
        self._sight = sight
        self.reset()

    @property
    def slices_on_grid(self) -> bool:
        return kernels.plans_shapes(self._model)

    @property
    def draft_memory(self) -> DraftMemory | None:
        return None if self._drafter is None else self._drafter.memory

    @property
    def tower_layers(self) -> int:
        return self._looks.tower_layers

    @property
    def drawing_share(self) -> float | None:
        """Only a slice that draws computes more of the last layer than keys and values."""
        if self._reader.logits is None:
            return None
        return 0.0 if self._reader.trims else 1 / len(self._model.layers)

    @property
    def slice_bytes(self) -> Callable[[int], int] | None:
        """What a slice of so many tokens takes, where MLX does not count it."""
        return self._reader.bytes_for

    @property
    def num_bytes(self) -> int:
        """What is held for rows, but for drafting. Nothing is computed to find out."""
        prefilled = (row_caches.num_bytes(row.caches) for row in self._prefilled.values())
        return self._batch.num_bytes + sum(prefilled)

    @property
    def num_groups(self) -> int:
        """Batches that its rows decode in."""
        return self._batch.num_groups

    @property
    def has_moved(self) -> bool:
        """All rows of the batch were copied in the last step."""
        return self._batch.is_new

    @property
    def num_places(self) -> int:
        return len(self._batch.places)

    @property
    def growing(self) -> tuple[tuple[int, int], ...]:
        """Rows and tokens of each batch whose buffers the next step makes larger."""
        return self._batch.growing

    @property
    def closing_bytes(self) -> int:
        """Of batches that the next step lays out anew whoever joins."""
        return self._batch.closing_bytes

    def groups_after(self, step: Step) -> tuple[Group, ...]:
        """Its batches when the step's rows have left and joined."""
        if self._foreseen is not None and self._foreseen[0] is step:
            return self._foreseen[1]
        self._bound(step)
        joining = {
            join.row_id: (self._row_of(join.row_id).caches, join.num_tokens - 1)
            for join in step.joins
        }
        self._foreseen = step, self._batch.groups_after(step.leaves, joining)
        return self._foreseen[1]

    def restore_row(
        self,
        row_id: int,
        slices: list[tuple[Any, int]],
        boundary: Any | None,
        *,
        num_tokens: int,
    ) -> None:
        """A row that begins with copies instead of computed slices."""
        caches = self._new_caches()
        snapshots.restore(caches, slices, boundary, most_bytes=self._together_bytes)
        row_caches.start_evaluating(caches)
        self._prefilled[row_id] = _Prefilled(caches, num_tokens)

    def find_row(self, row_id: int) -> tuple[Caches, int] | None:
        """A row's caches and how many tokens they hold; None for a row without any."""
        if (row := self._prefilled.get(row_id)) is not None:
            return row.caches, row.num_tokens
        return self._batch.extract(row_id) if row_id in self._batch.row_ids else None

    def copy_slices(self, row: Caches, spans: Sequence[TokenSpan]) -> list[Payload]:
        return snapshots.capture_slices(
            row, spans, stacks=self._stacks, most_bytes=self._together_bytes
        )

    def copy_boundary(self, row: Caches) -> Payload:
        return snapshots.payload(snapshots.capture_boundary(row))

    def copy_logits(self, row_id: int) -> Payload | None:
        """[1, V]: what the row's next token is drawn from, where the last step let it in."""
        logits = self._first_logits.get(row_id)
        return None if logits is None else snapshots.payload([mx.contiguous(logits)])

    def draw(self, join: Join, copied: Snapshot) -> Drawn:
        """A row's next token from a copy of its logits; waited for."""
        (drawn,) = submit_first_draw([join], copied.arrays[0]).read(self._token_bytes)
        return drawn

    def reset(self) -> None:
        """Forget every row, after a failure: host counters and arrays may disagree."""
        self._batch = GroupedBatch(
            self._decode, pass_bytes=self._pass_bytes, together_bytes=self._together_bytes
        )
        self._sampler = BatchSampler()
        self._sampled: dict[int | None, SampledRow] = {None: idle_row()}
        self._places: tuple[int | None, ...] = ()  # as the sampler has them
        self._prefilled: dict[int, _Prefilled] = {}
        self._looks = Looks(self._sight)
        self._first_logits: dict[int, mx.array] = {}  # [1, V] each, of rows that entered last
        self._foreseen = None
        self._submitted: _Submitted | None = None
        self._verifier = Verifier(
            self._drafter, self._reader.all_logits, self._reader.read, self._own_row
        )

    def run(self, step: Step) -> tuple[Outcome, ...]:
        """Submit `step` and wait for the one before; what has ended, in order."""
        outcome = self._submit(step)
        ended = (outcome,) if outcome is not None else ()
        if self._submitted is None or not self._is_told_at_once(step):
            return ended
        submitted, self._submitted = self._submitted, None
        return (*ended, self._collect(submitted))

    def _is_told_at_once(self, step: Step) -> bool:
        """A CPU has computed it by now, or somebody waits for a first token."""
        if self._submitted is not None and self._submitted.verification is not None:
            return True
        is_awaited = bool(step.slices or step.first_draws)
        return not self._runs_ahead and (is_awaited or self._computes_at_once(self.num_places))

    def _submit(self, step: Step) -> Outcome | None:
        before, self._submitted = self._submitted, None
        outcome = None
        self._bound(step)
        # A slice's time teaches the cost model, so the step before it ends first; a join takes the
        # buffers of what was sliced; what is drafted follows what was drawn.
        is_due = step.slices or (step.joins and before and before.sliced) or step.most_draft_tokens
        if before is not None and is_due:
            outcome, before = self._collect(before), None
        self._leave(step.leaves)
        self._first_logits = {}
        if step.slices:
            self._submitted = self._submit_slices(step)
        elif verified := self._submit_verification(step):
            self._submitted = verified
        elif step.decodes:
            submitted_at = self._clock()
            logits = self._forward(step)
            self._arrange()
            self._note_first(step.joins, self._places, logits)
            if before is not None and self._sampler.is_constrained:
                # What a grammar allows next depends on the tokens of the step before: they are
                # read while the device computes the logits.
                mx.async_eval(logits)  # type: ignore[no-untyped-call]
                outcome, before = self._collect(before), None
            self._submitted = self._submit_draw(step, logits, submitted_at=submitted_at)
        if before is not None and outcome is None:
            outcome = self._collect(before)
        return outcome

    def _bound(self, step: Step) -> None:
        if step.most_row_bytes is not None:
            self._batch.most_bytes = step.most_row_bytes
        if step.forgets_drafts:
            self._verifier.forget()

    def _submit_slices(self, step: Step) -> _Submitted:
        submitted_at = self._clock()
        draws: list[Draw] = []
        sliced = tuple(self._run_slice(one, draws) for one in step.slices)
        return _Submitted(step=step, submitted_at=submitted_at, sliced=sliced, draws=tuple(draws))

    def _forward(self, step: Step) -> mx.array:
        if step.joins:
            self._join(step.joins)
        assert set(self._batch.row_ids) == set(step.decodes)
        return self._batch.forward()

    def _arrange(self) -> None:
        """The sampler's rows are where the batch has them."""
        if (places := self._batch.places) != self._places:
            self._sampler.arrange([self._sampled[row_id] for row_id in places])
            self._places = places

    def _submit_draw(self, step: Step, logits: mx.array, *, submitted_at: float) -> _Submitted:
        draw = submit_draw(self._places, self._sampler, logits)
        self._batch.feed(draw.drawn.token_ids)
        return _Submitted(step=step, submitted_at=submitted_at, draws=(draw,))

    def _submit_verification(self, step: Step) -> _Submitted | None:
        """None where nothing is drafted."""
        submitted_at = self._clock()
        if (verification := self._verifier.submit(step, self._batch.lone)) is None:
            return None
        return _Submitted(step=step, submitted_at=submitted_at, verification=verification)

    def _own_row(self, row_id: int) -> SampledRow:
        """With what the sampler's arrays have counted for it."""
        self._sampler.arrange([])
        self._places = ()
        return self._sampled[row_id]

    def _note_first(
        self, joins: tuple[Join, ...], row_ids: tuple[int | None, ...], logits: mx.array
    ) -> None:
        """`logits` [B, V] are of these rows, those of the joins among them."""
        for row_id in [join.row_id for join in joins]:
            place = row_ids.index(row_id)
            self._first_logits[row_id] = logits[place : place + 1]

    def _leave(self, row_ids: tuple[int, ...]) -> None:
        for row_id in row_ids:
            self._prefilled.pop(row_id, None)
            self._looks.forget(row_id)
            self._sampled.pop(row_id, None)
        self._verifier.leave(row_ids)
        self._batch.leave(row_ids)
        self._arrange()

    def _run_slice(self, one: Slice, draws: list[Draw]) -> Caches:
        """One forward for the rows of the slice. No logits are computed but for `draws`, which gets
        what it draws."""
        if one.tower_layers:
            self._looks.go_on(one)
            return []
        if one.start_tokens == 0:
            caches = self._new_caches()
        else:
            rows = [self._prefilled[row_id].caches for row_id in one.row_ids]
            stacked = rows[0] if len(rows) == 1 else row_caches.stack_level(rows)
            if stacked is None:
                return self._run_rows_of_slice(one, draws)
            caches = stacked
            if not self._together_bytes:  # to wait here at every slice costs more than they take
                row_caches.make_room(caches, Apart(), num_tokens=one.width)
        token_ids = mx.array(one.token_ids, mx.uint32)
        if one.images:
            self._looks.read(one, caches)
        elif one.draws and self._reader.logits is not None:
            logits = self._reader.logits(token_ids, caches)
            draws.append(submit_first_draw(one.draws, logits))
            self._note_first(one.draws, one.row_ids, logits)
        else:
            self._reader.read(token_ids, caches)
        row_caches.release_inputs(caches)
        row_caches.start_evaluating(caches)
        self._keep_prefilled(one, caches)
        return caches

    def _run_rows_of_slice(self, one: Slice, draws: list[Draw]) -> Caches:
        """Row by row, where the layouts of their caches differ."""
        singles = [
            dataclasses.replace(
                one,
                row_ids=one.row_ids[row : row + 1],
                token_ids=one.token_ids[row : row + 1],
                draws=one.draws[row : row + 1],
            )
            for row in range(len(one.row_ids))
        ]
        return [layer for single in singles for layer in self._run_slice(single, draws)]

    def _keep_prefilled(self, one: Slice, caches: Caches) -> None:
        num_rows = len(one.row_ids)
        rows = [caches] if num_rows == 1 else row_caches.split_level(caches, num_rows)
        for row_id, row in zip(one.row_ids, rows, strict=True):
            self._prefilled[row_id] = _Prefilled(row, one.stop_tokens)

    def _join(self, joins: tuple[Join, ...]) -> None:
        self._batch.join([self._new_row(join) for join in joins])
        self._sampled |= {join.row_id: sampled_row(join) for join in joins}
        self._verifier.join(joins)

    def _new_row(self, join: Join) -> NewRow:
        row = self._row_of(join.row_id)
        self._prefilled.pop(join.row_id, None)
        return NewRow(
            row_id=join.row_id,
            token_id=join.last_token_id,
            length=join.num_tokens - 1,
            caches=row.caches,
        )

    def _row_of(self, row_id: int) -> _Prefilled:
        """A prompt of one token has had no slice."""
        return self._prefilled.get(row_id) or _Prefilled(self._new_caches(), 0)

    def _collect(self, before: _Submitted) -> Outcome:
        for caches in before.sliced:
            row_caches.evaluate(caches)
        num_drafted = 0
        if (verification := before.verification) is not None:
            num_drafted = verification.num_drafted
            drawn, row = verification.read(self._token_bytes)
            self._sampled[drawn[0].row_id] = row
        else:
            drawn = tuple(one for draw in before.draws for one in draw.read(self._token_bytes))
        self._verifier.note(drawn)
        now = self._clock()
        # A step begins when it is submitted or when the one before has ended.
        seconds = now - max(before.submitted_at, self._last_outcome_at)
        self._last_outcome_at = now
        return Outcome(step=before.step, seconds=seconds, drawn=drawn, num_drafted=num_drafted)

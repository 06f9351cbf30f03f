"""Which requests of one model get a row, and how large its slices may be, by what memory is left.

Pure: it sees lengths and bytes, never tensors. Growth is counted some way ahead, not to the end of
every answer: rows that grow further than there is room for are preempted, the newest first. Where
there is room for several times what its rows can ever take, no step is reckoned: no bound binds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine import wire
from engine.core.grouping import least_padded
from engine.core.images import images_within, whole_images
from engine.core.limits import ALL_FITS, Fitting, Limits
from engine.core.pacing import Pace
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.slicing import EFFICIENT_TOKENS
from engine.core.step import Slice, Step, StepRunner
from engine.sizing.estimate import SMALLEST_SLICE_TOKENS, Estimate, grown_tokens
from engine.wire import Level

GROWTH_AHEAD_TOKENS = 512
_STAGES = (64, 128, 256, GROWTH_AHEAD_TOKENS)  # of that growth, each from the end of the one before
_TURN_SLICES = 8
_PLENTY = 4  # times what is taken at most


class RowMemory:
    """What the rows of one model have, and what they may take next. Without an estimate they may
    take anything."""

    def __init__(self, estimate: Estimate | None, scheduler: Scheduler, runner: StepRunner):
        self._estimate = estimate
        self._scheduler = scheduler
        self._runner = runner
        self._most_bytes = 0  # what steps take until others get rows
        self._known: object = None  # what that was reckoned of

    @property
    def growth_bytes(self) -> int:
        """What the next step takes for buffers that are full, or the first row that leaves them
        afterwards; 0 where none is."""
        growing = self._runner.growing
        if self._estimate is None or not growing or not (rows := self._scheduler.rows):
            return 0
        longest = max(len(one.token_ids) for one in rows)
        added = self._estimate.added_bytes(growing)
        leaving = self._estimate.move_bytes(self._runner.num_bytes + added)
        return max(added + leaving, self._estimate.decode_bytes(len(rows), longest, growing))

    @property
    def leaving_bytes(self) -> int:
        """What laying rows out anew takes, once others have left."""
        return self._estimate.move_bytes(self._runner.num_bytes) if self._estimate else 0

    def held_bytes(self, sequence: Sequence) -> int:
        """Of its row; without an estimate as much as a row holds on average."""
        if self._estimate is None:
            return self._runner.num_bytes // max(1, len(self._scheduler.rows))
        return self._estimate.row_bytes(sequence.computed_tokens)

    def admission(self, limits: Limits) -> Admission:
        rows = self._scheduler.rows
        return Admission(self._estimate, limits, rows=rows, row_bytes=self._runner.num_bytes)

    def limit(self, spec: wire.ModelSpec, limits: Limits, *, may_batch: bool) -> Fitting:
        """Hold the next slices and rows that join to what memory leaves; what of them fits."""
        fitting = self._fitting(spec, limits, may_batch=may_batch)
        if self._may_draft(limits):
            return fitting
        return dataclasses.replace(fitting, may_draft=False)

    def _may_draft(self, limits: Limits) -> bool:
        """What drafting holds of the longest row is in nobody's way while it is asked for, nobody
        waits for a row, and so much is free that both grow for a while."""
        drafting = self._runner.draft_memory
        if self._estimate is None or drafting is None or not drafting.token_bytes:
            return True
        if not (rows := self._scheduler.rows):
            return True
        if not self._scheduler.pace.draft_tokens:
            return not drafting.held_bytes
        if self._scheduler.may_admit:
            return False
        longest = max(len(one.token_ids) for one in rows) + GROWTH_AHEAD_TOKENS
        reading = self._estimate.slice_bytes(GROWTH_AHEAD_TOKENS, longest)
        growing = GROWTH_AHEAD_TOKENS * self._estimate.token_bytes
        needed = longest * drafting.token_bytes - drafting.held_bytes + reading + growing
        return needed <= min(limits.free_bytes, limits.own_free_bytes)

    def _fitting(self, spec: wire.ModelSpec, limits: Limits, *, may_batch: bool) -> Fitting:
        scheduler = self._scheduler
        if self._estimate is None or not scheduler.changes_batch:
            return ALL_FITS
        pace = Pace.of(spec, may_batch=may_batch)
        if self._known != self._knowable:
            rows, self._known = scheduler.rows, self._knowable
            self._most_bytes = most_bytes(self._estimate, pace, rows=rows, runner=self._runner)
        if self._has_plenty(limits):
            scheduler.pace = _unheld(pace, limits)
            return ALL_FITS
        rows, held = scheduler.rows, self._runner.num_bytes
        scheduler.pace = hold_to_memory(pace, self._estimate, limits, rows=rows, held=held)
        return fitting(self._estimate, limits, rows=rows, held=held)

    def forget_bound(self) -> None:
        """Settings have changed."""
        self._known = None

    def make_room(
        self, step: Step, limits: Limits, *, kept_lengths: Callable[[Step], Iterable[int]]
    ) -> None:
        """For the step and for copies of rows of these lengths, which are made before."""
        if self._estimate is None:
            return
        kept_bytes = sum(map(self._estimate.row_bytes, kept_lengths(step)))
        if self._has_plenty(limits):
            limits.make_room(self._most_bytes, kept_bytes)
            return
        needed = step_bytes(self._estimate, step, rows=self._scheduler.rows, runner=self._runner)
        limits.make_room(needed, kept_bytes)

    def _has_plenty(self, limits: Limits) -> bool:
        free_bytes = min(limits.free_bytes, limits.own_free_bytes)
        return self._known == self._knowable and _PLENTY * self._most_bytes <= free_bytes

    @property
    def _knowable(self) -> tuple[object, ...]:
        """What the bound depends on; rows that have left since only make it too large."""
        assert self._estimate is not None
        return self._scheduler.num_admitted, self._estimate.correction


class Admission:
    """One turn's decisions: what was admitted counts for the next."""

    def __init__(
        self,
        estimate: Estimate | None,
        limits: Limits,
        *,
        rows: Iterable[Sequence],
        row_bytes: int,
    ):
        self._estimate = estimate
        self._limits = limits
        self._stages = _stages(list(rows))
        self._row_bytes = row_bytes
        self._least_refused = math.inf

    def may_admit(self, sequence: Sequence) -> bool:
        turnstile = self._limits.turnstile
        is_first = self._limits.is_quiet and not self._has_rows
        if not is_first and not (turnstile.is_open_to(sequence) and self._fits(sequence)):
            turnstile.note_refused(sequence)
            return False
        turnstile.note_admitted(sequence)
        for lengths in self._stages:
            lengths.append(_planned_tokens(sequence))
        return True

    @property
    def _has_rows(self) -> bool:
        return bool(self._stages[0])

    def _fits(self, sequence: Sequence) -> bool:
        if self._limits.level is not Level.CALM:
            return False
        if self._estimate is None:
            return True
        planned = _planned_tokens(sequence)
        if planned >= self._least_refused:
            return False
        slicing = _slicing_bytes(self._estimate, sequence, len(sequence.token_ids))
        for lengths in self._stages:
            groups = least_padded(map(grown_tokens, [*lengths, planned]))
            needed = self._estimate.grouped_bytes(groups, slicing_bytes=slicing) - self._row_bytes
            if not self._limits.has_room(needed, is_first=not self._has_rows):
                self._least_refused = planned
                return False
        return True


def most_bytes(estimate: Estimate, pace: Pace, *, rows: list[Sequence], runner: StepRunner) -> int:
    """What a step takes at most besides what there is, until others than these get rows: all in one
    batch, laid out anew, as long as the longest ever gets, and a turn of slices."""
    if not rows:
        return 0
    decoding = Status.DECODING
    num_apart = sum(one.status is not decoding for one in rows)
    num_rows = runner.num_places + num_apart
    longest = max(one.num_prompt_tokens + one.max_tokens for one in rows)
    batch_bytes = num_rows * estimate.row_bytes(longest)
    moving = estimate.move_bytes(2 * batch_bytes + runner.num_bytes)  # free places grow too
    slicing = estimate.grown_slice_bytes(_TURN_SLICES * pace.most_slice_tokens, longest)
    slicing += num_apart * estimate.grown_slice_bytes(SMALLEST_SLICE_TOKENS, longest)
    slicing += estimate.image_bytes if any(one.images for one in rows) else 0
    num_draws = num_rows + pace.draft_tokens
    stepping = estimate.step_bytes(num_draws, longest)  # caches that grow are copied as well
    return batch_bytes + slicing + moving + stepping


def _unheld(pace: Pace, limits: Limits) -> Pace:
    turn_tokens = _TURN_SLICES * pace.most_slice_tokens
    return dataclasses.replace(pace, most_turn_tokens=turn_tokens, most_row_bytes=limits.free_bytes)


def hold_to_memory(
    pace: Pace, estimate: Estimate, limits: Limits, *, rows: list[Sequence], held: int
) -> Pace:
    """Slices of the longest of these prompts fit, and those of a turn together: a device is given
    them all at once. The prefix cache gives way to slices that are not efficient without.
    `held`: bytes of all these rows' caches."""
    context = max((one.computed_tokens for one in rows), default=0)
    free_bytes = min(limits.free_bytes, limits.own_free_bytes)
    turn_tokens = estimate.most_slice_tokens(
        free_bytes, context_tokens=context, at_most=_TURN_SLICES * pace.most_slice_tokens
    )
    if turn_tokens < EFFICIENT_TOKENS:
        free_bytes = limits.room_bytes
        turn_tokens = estimate.most_slice_tokens(
            free_bytes, context_tokens=context, at_most=EFFICIENT_TOKENS
        )
    planned = [_planned_tokens(one) for one in rows]
    prompts = (
        tokens for one, tokens in zip(rows, planned, strict=True) if one.slice_tokens_left > 0
    )
    room_bytes = free_bytes + held - sum(map(estimate.row_bytes, prompts))
    return dataclasses.replace(
        pace,
        most_slice_tokens=min(turn_tokens, pace.most_slice_tokens),
        most_turn_tokens=turn_tokens,
        most_row_bytes=estimate.most_row_bytes(room_bytes, len(rows), max(planned, default=0)),
    )


def fitting(estimate: Estimate, limits: Limits, *, rows: list[Sequence], held: int) -> Fitting:
    """Rows that are ready join those that decode as far as a layer of all can be copied, and
    prompts are read whose smallest slice fits. What does not fit waits until rows have left.
    `held`: bytes of all these rows' caches."""
    free_bytes = limits.room_bytes
    return Fitting(
        most_joins=_most_joins(estimate, rows, room_bytes=free_bytes + held),
        no_room_for=frozenset(
            one.request_id
            for one in rows
            if one.slice_tokens_left > 0 and _next_slice_bytes(estimate, one) > free_bytes
        ),
    )


def _next_slice_bytes(estimate: Estimate, prompt: Sequence) -> int:
    start = prompt.computed_tokens
    width = whole_images(prompt.images, start, start + SMALLEST_SLICE_TOKENS) - start
    looking = estimate.image_bytes if images_within(prompt.images, start, start + width) else 0
    return max(looking, estimate.grown_slice_bytes(width, start))


def _slicing_bytes(estimate: Estimate, prompt: Sequence, context: int) -> int:
    """Its smallest slices at most, wherever its images are."""
    largest_image = max((one.num_tokens for one in prompt.images), default=0)
    looking = estimate.image_bytes if prompt.images else 0
    widest = max(SMALLEST_SLICE_TOKENS, largest_image)
    return max(looking, estimate.slice_bytes(widest, context))


def _most_joins(estimate: Estimate, rows: list[Sequence], *, room_bytes: int) -> int:
    lengths = [len(one.token_ids) for one in rows if one.status is Status.DECODING]
    read = [one for one in rows if one.status is not Status.DECODING]
    ready = [one for one in read if one.may_join]
    for number in range(len(ready), 0, -1):
        joined = [*lengths, *(len(one.token_ids) for one in ready[:number])]
        groups = least_padded(map(grown_tokens, joined))
        apart = sum(one.computed_tokens for one in read if one not in ready[:number])
        needed = estimate.grouped_bytes(groups, slicing_bytes=0) + int(apart * estimate.token_bytes)
        if needed <= room_bytes:
            return number
    return 0


def step_bytes(estimate: Estimate, step: Step, *, rows: list[Sequence], runner: StepRunner) -> int:
    """What a step takes besides what there is before it. `rows`: those that do not leave."""
    if not (step.leaves or step.joins):
        computing = _Computing(runner.num_places, runner.closing_bytes, runner.growing)
        return _computing_bytes(estimate, step, computing, rows=rows)
    groups = runner.groups_after(step)
    held = [one.num_rows * estimate.row_bytes(one.num_tokens) for one in groups]
    joining_bytes = sum(estimate.row_bytes(join.num_tokens) for join in step.joins)
    moving_bytes = sum(num for num, one in zip(held, groups, strict=True) if one.moves)
    moving_bytes = max(moving_bytes, joining_bytes) + runner.closing_bytes
    apart = sum(
        estimate.row_bytes(one.computed_tokens) for one in rows if one.status is not Status.DECODING
    )
    grown_bytes = max(0, sum(held) + apart - runner.num_bytes)
    leaving = estimate.move_bytes(moving_bytes)
    num_places = sum(one.num_rows for one in groups)
    computing = _Computing(num_places, moving_bytes, runner.growing)
    return grown_bytes + max(leaving, _computing_bytes(estimate, step, computing, rows=rows))


class _Computing(NamedTuple):
    """What a step computes: a token for each of so many places, bytes of rows that are laid out
    anew, and places and tokens of batches whose buffers are full."""

    num_places: int
    moving_bytes: int
    growing: tuple[tuple[int, int], ...]


def _computing_bytes(
    estimate: Estimate, step: Step, computing: _Computing, *, rows: list[Sequence]
) -> int:
    if step.slices:
        return sum(_slice_bytes(estimate, one) for one in step.slices)
    if not rows or not step.decodes:
        return 0
    longest = max(len(one.token_ids) for one in rows)
    num_places, moving_bytes, growing = computing
    if step.joins:
        return estimate.step_bytes(num_places, longest, moving_bytes=moving_bytes)
    num_places += step.most_draft_tokens  # a draw at each
    return estimate.decode_bytes(num_places, longest, growing) + estimate.move_bytes(moving_bytes)


def _slice_bytes(estimate: Estimate, one: Slice) -> int:
    computing = len(one.row_ids) * estimate.grown_slice_bytes(one.width, one.start_tokens)
    looking = estimate.image_bytes if one.images else 0
    return max(computing, looking, estimate.drawing_bytes(len(one.draws)))


def _stages(rows: list[Sequence]) -> list[list[int]]:
    """The lengths of the rows at the end of every stage of their growth: rows that decode grow
    together, and those that end leave their memory to the others' growth. When a prompt will be
    complete is not known: such a row counts in full throughout."""
    stages: list[list[int]] = []
    num_left = -1
    for start, stop in zip((0, *_STAGES[:-1]), _STAGES, strict=True):
        lengths = [
            len(one.token_ids) + min(_tokens_left(one), stop)
            if one.status is Status.DECODING
            else _planned_tokens(one)
            for one in rows
            if one.status is not Status.DECODING or _tokens_left(one) > start
        ]
        if len(lengths) == num_left:
            stages.pop()  # nobody has ended: at the end of this one they take more
        stages.append(lengths)
        num_left = len(lengths)
    return stages


def _tokens_left(sequence: Sequence) -> int:
    return sequence.max_tokens - sequence.num_output_tokens


def _planned_tokens(sequence: Sequence) -> int:
    return len(sequence.token_ids) + min(_tokens_left(sequence), GROWTH_AHEAD_TOKENS)

"""Which requests of one model get a row, and how large its slices may be, by what memory is left.

Pure: it sees lengths and bytes, never tensors. Growth is counted some way ahead, not to the end of
every answer: rows that grow further than there is room for are preempted, the newest first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

from engine.core.grouping import MAX_GROUPS
from engine.core.limits import Limits
from engine.core.pacing import Pace
from engine.core.sequence import Sequence
from engine.core.slicing import EFFICIENT_TOKENS
from engine.core.step import Step, StepRunner
from engine.sizing.estimate import SMALLEST_SLICE_TOKENS, Estimate
from engine.wire import Level

GROWTH_AHEAD_TOKENS = 512
_TURN_SLICES = 8


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
        self._lengths = [_planned_tokens(one) for one in rows]
        self._row_bytes = row_bytes
        self._least_refused = math.inf

    def may_admit(self, sequence: Sequence) -> bool:
        turnstile = self._limits.turnstile
        is_first = self._limits.is_quiet and not self._lengths
        if not is_first and not (turnstile.is_open_to(sequence) and self._fits(sequence)):
            turnstile.note_refused(sequence)
            return False
        turnstile.note_admitted(sequence)
        self._lengths.append(_planned_tokens(sequence))
        return True

    def _fits(self, sequence: Sequence) -> bool:
        if self._limits.level is not Level.CALM:
            return False
        if self._estimate is None:
            return True
        planned = _planned_tokens(sequence)
        if planned >= self._least_refused:
            return False
        slicing = self._estimate.slice_bytes(SMALLEST_SLICE_TOKENS, len(sequence.token_ids))
        room = self._free_bytes + self._row_bytes
        ways = ways_to_hold(self._estimate, [*self._lengths, planned], slicing)
        if any(needed <= room for needed in ways):
            return True
        self._least_refused = planned
        return False

    @property
    def _free_bytes(self) -> int:
        free_bytes = self._limits.free_bytes + self._limits.tier_bytes
        return min(free_bytes, self._limits.own_free_bytes) if self._lengths else free_bytes


def hold_to_memory(
    pace: Pace, estimate: Estimate | None, limits: Limits, *, rows: list[Sequence], held: int
) -> Pace:
    """Slices of the longest of these prompts fit, and those of a turn together: a device is given
    them all at once. The prefix cache gives way to slices that are not efficient without.
    `held`: bytes of all these rows' caches."""
    if estimate is None:
        return pace
    context = max((one.computed_tokens for one in rows), default=0)
    free_bytes = min(limits.free_bytes, limits.own_free_bytes)
    turn_tokens = estimate.most_slice_tokens(
        free_bytes, context_tokens=context, at_most=_TURN_SLICES * pace.most_slice_tokens
    )
    if turn_tokens < EFFICIENT_TOKENS:
        free_bytes = min(limits.free_bytes + limits.tier_bytes, limits.own_free_bytes)
        turn_tokens = estimate.most_slice_tokens(
            free_bytes, context_tokens=context, at_most=EFFICIENT_TOKENS
        )
    planned = [_planned_tokens(one) for one in rows]
    prompts = (
        tokens for one, tokens in zip(rows, planned, strict=True) if one.slice_tokens_left > 0
    )
    computing = estimate.step_bytes(len(rows), max(planned, default=0))
    taken = sum(map(estimate.row_bytes, prompts)) + computing
    return dataclasses.replace(
        pace,
        most_slice_tokens=min(turn_tokens, pace.most_slice_tokens),
        most_turn_tokens=turn_tokens,
        most_row_bytes=max(0, free_bytes + held - taken),
    )


def step_bytes(
    estimate: Estimate, step: Step, *, rows: list[Sequence], runner: StepRunner, pace: Pace
) -> int:
    """What a step takes besides what there is before it."""
    if step.slices:
        return sum(
            len(one.row_ids) * estimate.grown_slice_bytes(len(one.token_ids[0]), one.start_tokens)
            for one in step.slices
        )
    lengths = [len(one.token_ids) for one in rows]
    if not lengths or not step.decodes:
        return 0
    if not step.joins:
        return estimate.decode_bytes(len(step.decodes), max(lengths), runner.growing)
    computing = estimate.step_bytes(len(step.decodes), max(lengths))
    joined = estimate.batch_bytes(lengths)
    if pace.most_row_bytes is not None:
        joined = min(joined, pace.most_row_bytes)
    return max(0, joined - runner.num_bytes) + computing


def ways_to_hold(estimate: Estimate, lengths: list[int], slicing_bytes: int) -> Iterator[int]:
    """What rows of these lengths and computing take: in one batch, or, where the padding of that
    is too much, in one of short and one of long rows, or in as many as there may be. The runner
    parts them when it must."""
    ordered = sorted(lengths)
    gaps = sorted(range(1, len(ordered)), key=lambda at: ordered[at - 1] - ordered[at])
    for cuts in (*([at] for at in range(len(ordered))), sorted(gaps[: MAX_GROUPS - 1])):
        ends = zip([0, *cuts], [*cuts, len(ordered)], strict=True)
        parts = [ordered[start:stop] for start, stop in ends if start < stop]
        computing = estimate.grouped_step_bytes((len(part), part[-1]) for part in parts)
        yield sum(map(estimate.batch_bytes, parts)) + max(slicing_bytes, computing)


def _planned_tokens(sequence: Sequence) -> int:
    left = sequence.max_tokens - sequence.num_output_tokens
    return len(sequence.token_ids) + min(left, GROWTH_AHEAD_TOKENS)

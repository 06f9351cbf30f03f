"""Which requests of one model get a row, and how large its slices may be, by what memory is left.

Pure: it sees lengths and bytes, never tensors. Growth is counted some way ahead, not to the end of
every answer: rows that grow further than there is room for are preempted, the newest first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from engine.core.limits import Limits
from engine.core.pacing import Pace
from engine.core.sequence import Sequence
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
        return self._estimate is None or self._added_bytes(sequence) <= self._free_bytes

    @property
    def _free_bytes(self) -> int:
        free_bytes = self._limits.free_bytes
        return min(free_bytes, self._limits.own_free_bytes) if self._lengths else free_bytes

    def _added_bytes(self, sequence: Sequence) -> int:
        """What all rows and computing take once it has joined, less what rows hold now."""
        assert self._estimate is not None
        lengths = [*self._lengths, _planned_tokens(sequence)]
        computing = max(
            self._estimate.slice_bytes(SMALLEST_SLICE_TOKENS, len(sequence.token_ids)),
            self._estimate.step_bytes(len(lengths), max(lengths)),
        )
        return self._estimate.batch_bytes(lengths) + computing - self._row_bytes


def hold_to_memory(
    pace: Pace, estimate: Estimate | None, limits: Limits, *, rows: Iterable[Sequence]
) -> Pace:
    """Slices of the longest of these prompts fit, and those of a turn together: a device is given
    them all at once."""
    if estimate is None:
        return pace
    longest = max((one.computed_tokens for one in rows), default=0)
    turn_tokens = estimate.most_slice_tokens(
        min(limits.free_bytes, limits.own_free_bytes),
        context_tokens=longest,
        at_most=_TURN_SLICES * pace.most_slice_tokens,
    )
    return dataclasses.replace(
        pace,
        most_slice_tokens=min(turn_tokens, pace.most_slice_tokens),
        most_turn_tokens=turn_tokens,
    )


def _planned_tokens(sequence: Sequence) -> int:
    left = sequence.max_tokens - sequence.num_output_tokens
    return len(sequence.token_ids) + min(left, GROWTH_AHEAD_TOKENS)

"""Both directions of the pace, held against a run: what running rows wait, what prompts wait.

stall   running rows wait for slices, of whatever model, for about `stall_seconds` at a stretch at
        most: the shortest of the models that decode
shares  while rows decode and prompts wait, slices take S and decode steps D of the time:
        S * least <= D * (1 - least) + slack    running rows get their share
        D * (1 - share) <= S * share + slack    and prompts get the rest
        least is the share in force, which prompts that one slice completes make smaller
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from engine.core.pacing import Pace
from engine.core.scheduler import Scheduler
from engine.core.sequence import Status
from engine.core.step import Step

STALL_FACTOR = 1.6  # a cost learned from few prompts may be wrong by so much
STEP_SECONDS = 0.005  # a few decode steps
LEARNING_STEPS = 100  # costs and step times are guesses before
LEARNING_SLICES = 4  # of each model: one that was just loaded has read nothing yet
SHARES_KEPT = 4  # a slice is booked a step or two after it was decided, with the share of then


class TimeBounds:
    """`watch` is to be called after every step with its duration in seconds."""

    def __init__(self, schedulers: Callable[[], list[Scheduler]], pace: Pace) -> None:
        self._schedulers = schedulers
        self._pace = pace
        self._known: list[Scheduler] = []
        self.num_steps = self.num_checked = 0
        self.broken: list[str] = []  # an exception would look like a failed step
        self._learn_again()

    def watch(self, step: Step, seconds: float) -> None:
        self.num_steps += 1
        schedulers = self._schedulers()
        decoding = [one for one in schedulers if one.is_decoding]
        if schedulers != self._known:  # a new engine, or a model that was loaded again
            self._known = schedulers
            self._learn_again()
        if self._steps_to_learn > 0:
            self._steps_to_learn -= bool(step.computed_row_ids)
        elif decoding:
            if all(one.cost._num_learned >= LEARNING_SLICES for one in schedulers):
                self._check_stall(step, seconds, decoding)
            self._check_shares(step, seconds, schedulers)
            return
        self._start()
        self._waited = 0.0

    def _learn_again(self) -> None:
        self._steps_to_learn = LEARNING_STEPS
        self._waited = 0.0
        self._start()

    def _start(self) -> None:
        self._slices = self._decodes = self._joins = self._due = 0.0
        self._shares = collections.deque([0.0], maxlen=SHARES_KEPT)

    def _check_stall(self, step: Step, seconds: float, decoding: list[Scheduler]) -> None:
        self._waited = 0.0 if step.decodes else self._waited + seconds * bool(step.slices)
        stall = min(one.pace.stall_seconds for one in decoding)
        if step.slices and self._waited > STALL_FACTOR * stall:
            self.broken.append(f"rows wait for {self._waited:.3f} s, not {stall:.3f} s")

    def _check_shares(self, step: Step, seconds: float, schedulers: list[Scheduler]) -> None:
        if not any(map(_has_prompts, schedulers)):
            self._start()
            return
        self._shares.append(min(one.decode_share for one in schedulers if one.is_decoding))
        if step.slices:
            self._slices += seconds
            self._due += seconds * min(self._shares) / (1 - min(self._shares))
        elif step.decodes:
            self._decodes += seconds
            self._joins += seconds if step.joins else 0.0
        share, stall = self._pace.decode_share, self._pace.stall_seconds
        # Each model may have a slice under way that is not paid yet, and pays too much once.
        slack = len(schedulers) * STALL_FACTOR * stall + STEP_SECONDS
        owed = self._due - self._decodes
        if owed > slack / (1 - share):
            self.broken.append(f"running rows lack {owed - slack:.3f} s of their share")
        # A prompt that is complete goes into the batch at once: a step for its own sake.
        kept = self._decodes * (1 - share) - self._slices * share
        if kept > slack + self._joins:
            self.broken.append(f"prompts lack {kept - slack - self._joins:.3f} s of the rest")
        self.num_checked += 1


def _has_prompts(scheduler: Scheduler) -> bool:
    return any(
        one.status is Status.PREFILLING and one.slice_tokens_left > 0 for one in scheduler.rows
    )

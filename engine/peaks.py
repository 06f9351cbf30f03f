"""Runners whose steps are measured, so that a model's estimate follows what they really take.

A slice says what slices take; a step in which rows join and the batch is laid out anew, what those
steps take. Other steps take less. It does not know what is decided by it. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from engine.core.cost import CostModel
from engine.core.step import Outcome, PassingRunner, Step, StepRunner
from engine.sizing.estimate import Estimate, Parts
from engine.sizing.layers import Layers
from engine.sizing.learning import Learned, PeakLearner
from engine.vector_handle import Computer
from engine.wire import Correction

_LARGEST_SLICE_TOKENS, _LARGEST_CONTEXT_TOKENS, _MOST_ROWS = 2048, 8192, 16


class Peaks(Protocol):
    """What the device had in use at most since `begin`, which says what it has now."""

    def begin(self) -> int: ...
    def highest_bytes(self) -> int: ...


class ModelPeaks:
    """A model's estimate, what is learned for it, and what its slices cost, loaded or not.

    `runs_ahead`: the device computes after the host has submitted, so that a peak may come when
    its step is no longer watched: then peaks prove that more is needed, never that less is.
    """

    def __init__(
        self,
        estimate: Estimate,
        *,
        runs_ahead: bool,
        slices: Learned | None = None,
        steps: Learned | None = None,
        cost: CostModel | None = None,
    ):
        self.estimate = estimate
        self.cost = cost or CostModel()
        self.knows_slices = False
        self._usual = estimate.correction
        self._may_fall = not runs_ahead
        self._begin(slices, steps)

    def _begin(self, slices: Learned | None, steps: Learned | None) -> None:
        largest_slice = self.estimate.slice_parts(_LARGEST_SLICE_TOKENS, _LARGEST_CONTEXT_TOKENS)
        largest_step = self.estimate.step_parts(_MOST_ROWS, _LARGEST_CONTEXT_TOKENS)
        learner = partial(PeakLearner, may_fall=self._may_fall)
        self.slices = learner(usual=self._usual.slices, largest=largest_slice, learned=slices)
        self.steps = learner(usual=self._usual.steps, largest=largest_step, learned=steps)
        self.follow()

    def know_layers(self, layers: tuple[Layers, ...]) -> None:
        """What the caches of the loaded model keep, whatever its config seemed to say."""
        if set(layers) != set(self.estimate.shape.layers):
            self.estimate.know_layers(layers)
            self._begin(self.slices.learned, self.steps.learned)

    def know_slices(self, bytes_for: Callable[[int], int]) -> None:
        """What one of so many tokens takes is known, and peaks do not tell it."""
        usual = self.estimate.correction.slices
        parts = self.estimate.slice_parts(_LARGEST_SLICE_TOKENS, _LARGEST_CONTEXT_TOKENS)
        activations, scores, _ = parts
        factor = (bytes_for(_LARGEST_SLICE_TOKENS) - scores) / activations
        assert factor > 0, "scores are in no block"
        self.slices = PeakLearner(usual=(factor, 1.0, usual[2]), largest=parts)
        self.knows_slices = True
        self.follow()

    def follow(self) -> None:
        """The estimate uses what was learned up to now."""
        self.estimate.correction = Correction(slices=self.slices.factors, steps=self.steps.factors)


class MeasuredRunner(PassingRunner):
    """`note_learned` hears of everything learned."""

    def __init__(
        self,
        runner: StepRunner,
        model: ModelPeaks,
        peaks: Peaks,
        *,
        note_learned: Callable[[], None] = lambda: None,
    ):
        super().__init__(runner)
        self._model = model
        self._estimate = model.estimate
        self._peaks = peaks
        self._note_learned = note_learned
        self._num_decodes = 0
        self._joined: dict[int, int] = {}  # its tokens less the steps before it joined

    def reset(self) -> None:
        self._joined = {}
        super().reset()

    def run(self, step: Step) -> tuple[Outcome, ...]:
        self._follow(step)
        learner, parts = self._told_by(step)
        if parts is None:
            return self._following_drafts(self._runner.run(step))
        held_bytes, before_bytes = self.num_bytes, self._peaks.begin()
        outcomes = self._runner.run(step)
        grown_bytes = max(0, self.num_bytes - held_bytes)
        measured_bytes = self._peaks.highest_bytes() - before_bytes - grown_bytes
        if step.slices and self._estimate.computes_in_blocks:
            measured_bytes += int(parts[1])  # which are NumPy's
        if step.joins and not (self.num_groups == 1 and self.has_moved):
            return outcomes  # the formula is that of one batch, all of whose rows are copied
        if grown_bytes and measured_bytes <= self._growing_bytes(step):
            return outcomes  # what was computed took less than making room for it
        if step.slices and not grown_bytes:
            parts = (parts[0], parts[1], 0.0)  # no cache was copied
        learner.learn(parts, measured_bytes=measured_bytes)
        self._model.follow()
        self._note_learned()
        return outcomes

    def _growing_bytes(self, step: Step) -> int:
        grown = (self._estimate.grow_bytes(one.start_tokens) for one in step.slices)
        return sum(grown)

    def _follow(self, step: Step) -> None:
        for row_id in step.leaves:
            self._joined.pop(row_id, None)
        for join in step.joins:
            self._joined[join.row_id] = join.num_tokens - self._num_decodes
        self._num_decodes += bool(step.decodes)

    def _following_drafts(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """A step that verifies teaches nothing, but may add several tokens to its row."""
        for one in outcomes:
            if one.num_drafted:
                self._joined[one.drawn[0].row_id] += len(one.drawn) - 1
        return outcomes

    def _told_by(self, step: Step) -> tuple[PeakLearner, Parts | None]:
        if step.joins and len(step.decodes) == 1:
            return self._model.steps, None  # a single row is not copied
        if step.joins:
            longest = max(self._joined.values()) + self._num_decodes
            return self._model.steps, self._estimate.step_parts(len(step.decodes), longest)
        if len(step.slices) != 1 or step.leaves or self._model.knows_slices:
            return self._model.slices, None  # where rows leave, others are copied
        (one,) = step.slices
        if one.images:
            return self._model.slices, None  # what looking takes is no part of the formula
        num_rows = len(one.row_ids)
        computing = num_rows * self._estimate.slice_bytes(one.width, one.start_tokens)
        if self._estimate.drawing_bytes(len(one.draws)) > computing:
            return self._model.slices, None  # what drawing takes is no part of the formula
        parts = self._estimate.slice_parts(one.width, one.start_tokens, num_rows=num_rows)
        return self._model.slices, parts


class MeasuredComputer:
    """The same of vectors and scores: a bundle says what bundles take."""

    def __init__(
        self,
        computer: Computer,
        model: ModelPeaks,
        peaks: Peaks,
        *,
        note_learned: Callable[[], None] = lambda: None,
    ):
        self._computer = computer
        self._model = model
        self._peaks = peaks
        self._note_learned = note_learned
        self.begin, self.go_on, self.event = computer.begin, computer.go_on, computer.event

    def run(self, rows: Sequence[tuple[int, ...]]) -> Sequence[Any]:
        before_bytes = self._peaks.begin()
        results = self._computer.run(rows)
        measured_bytes = self._peaks.highest_bytes() - before_bytes
        parts = self._model.estimate.slice_parts(max(map(len, rows)), 0, num_rows=len(rows))
        self._model.slices.learn(parts, measured_bytes=measured_bytes)
        self._model.follow()
        self._note_learned()
        return results

"""How many tokens are drafted before a step, which verifies them all at once (speculative
decoding, Leviathan et al., 2023).

Whether that pays is measured: a step that verifies takes longer than one that draws a token, and
gives as many tokens as were drafted rightly and one more. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.core.sequence import Sequence
from engine.core.step import Outcome

_FIRST_TOKENS = 4
_NEW_WEIGHT = 0.25  # of the last step in what is expected of the next
_LEAST_REST_STEPS, _MOST_REST_STEPS = 4, 128
_STEPS_BETWEEN_PLAIN = 64  # what one takes grows with the row
_LEAST_SECONDS = 1e-6
_MOST_STEPS_AFTER_NOTHING = 4  # a device that runs ahead is waited for to draft


class Drafting:
    """Of one model: for the row that decodes alone; another one begins anew. `is_possible`: of what
    the runner says."""

    def __init__(self, *, is_possible: bool) -> None:
        self._is_possible = is_possible
        self._plain_seconds = 0.0  # of a step of one row that verifies nothing
        self.num_drafted = self.num_right = 0  # tokens, ever
        self._begin(None)

    def _begin(self, row_id: int | None) -> None:
        self._row_id = row_id
        self._num_tokens = _FIRST_TOKENS
        self._gain = 1.0  # tokens for the time of one
        self._rest_steps = _LEAST_REST_STEPS  # when it does not pay
        self._plain_steps_due = 1  # before drafts are verified again
        self._steps_since_plain = 0
        self._num_nothings = 0  # drafted in a row

    def most_tokens(self, batch: Collection[Sequence], *, at_most: int) -> int:
        """How many to draft for the only row of the batch, whose next token is asked for already; 0
        while it does not pay, and where a grammar holds it: there each token decides the next."""
        if not (self._is_possible and at_most) or len(batch) != 1:
            return 0
        (sequence,) = batch
        if sequence.grammar is not None:
            return 0
        if sequence.row_id != self._row_id:
            self._begin(sequence.row_id)
        if self._plain_steps_due > 0:
            return 0
        return min(self._num_tokens, at_most, sequence.max_tokens - sequence.num_drawn)

    def learn(self, outcome: Outcome) -> None:
        """Of a decode step."""
        if not self._is_possible or outcome.step.joins or len(outcome.step.decodes) != 1:
            return
        if outcome.num_drafted:
            self._learn_drafts(outcome)
            return
        if outcome.step.most_draft_tokens:
            self._num_nothings += 1
            self._plain_steps_due = min(self._num_nothings, _MOST_STEPS_AFTER_NOTHING)
            return
        usual = self._plain_seconds or outcome.seconds
        self._plain_seconds = usual + _NEW_WEIGHT * (outcome.seconds - usual)
        self._plain_steps_due = max(0, self._plain_steps_due - 1)
        self._steps_since_plain = 0

    def _learn_drafts(self, outcome: Outcome) -> None:
        self._num_nothings = 0
        num_drawn = len(outcome.drawn)
        self.num_drafted += outcome.num_drafted
        self.num_right += num_drawn - 1
        was_right = num_drawn > outcome.num_drafted
        self._num_tokens = 2 * outcome.num_drafted if was_right else num_drawn
        gain = num_drawn * self._plain_seconds / max(outcome.seconds, _LEAST_SECONDS)
        self._gain += _NEW_WEIGHT * (gain - self._gain)
        self._steps_since_plain += 1
        if self._gain < 1.0:
            self._plain_steps_due = self._rest_steps
            self._rest_steps = min(2 * self._rest_steps, _MOST_REST_STEPS)
            self._gain = 1.0
        elif self._steps_since_plain >= _STEPS_BETWEEN_PLAIN:
            self._plain_steps_due = 1
        else:
            self._rest_steps = _LEAST_REST_STEPS

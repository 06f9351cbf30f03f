"""How long will what the device was given take? Pure numbers."""

from __future__ import annotations

from collections.abc import Collection

from engine.core.cost import FIRST_USE_SECONDS, CostModel
from engine.core.pacing import TimeLedger
from engine.core.step import Step

_FIRST_DECODES, _FIRST_SLICES = 16, 4  # turns of a loaded model
_FIRST_IMAGE_SECONDS = 15.0  # a large tower on a slow device, before any was measured


class Expectation:
    """Of one model's steps."""

    def __init__(self, cost: CostModel, ledger: TimeLedger) -> None:
        self._cost = cost
        self._ledger = ledger
        self._num_decodes = self._num_slices = 0  # turns that have ended

    def note_ended(self, step: Step) -> None:
        self._num_decodes += bool(step.decodes)
        self._num_slices += bool(step.slices)

    def seconds(self, steps: Collection[Step]) -> float:
        """Of them all, one after the other."""
        seconds = sum(map(self._seconds_of, steps))
        return seconds + (FIRST_USE_SECONDS if any(map(self._is_new, steps)) else 0.0)

    def _is_new(self, step: Step) -> bool:
        """Its kind may have to be compiled."""
        if step.decodes:
            return self._num_decodes < _FIRST_DECODES
        return self._num_slices < _FIRST_SLICES

    def _seconds_of(self, step: Step) -> float:
        if step.decodes:
            return self._ledger.decode_seconds
        if not self._cost.image_seconds and any(one.images for one in step.slices):
            return _FIRST_IMAGE_SECONDS
        return sum(
            self._cost.predict(
                one.width, start=one.start_tokens, rows=len(one.row_ids), images=one.look_share
            )
            for one in step.slices
        )

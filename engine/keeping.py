"""Which rows are copied for the prefix cache around a step: before it takes them away, when it
completes their prompts, and where their slices end.

It does not know what is worth a copy; reuse.py does. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.core.step import Step
from engine.live_request import LiveRequest
from engine.reuse import owners_of
from engine.safe_reuse import Reuse


class Keeping:
    """Of one model. `find_live`: the request of a row_id, while it lives."""

    def __init__(self, reuse: Reuse | None, find_live: Callable[[int], LiveRequest | None]):
        self._reuse = reuse
        self._find_live = find_live
        self._departing: dict[int, LiveRequest] = {}  # ended; their rows leave in the next step

    def depart(self, live: LiveRequest) -> None:
        """It has ended: until its row leaves, what that holds can be kept."""
        if self._reuse is None:
            return
        self._reuse.forget(live)
        sequence = live.sequence
        if sequence.row_id is not None and sequence.computed_tokens > 0 and not live.is_kept:
            self._departing[sequence.row_id] = live

    def distrust(self, live: LiveRequest) -> None:
        if self._reuse is not None:
            self._reuse.distrust(live)

    def forget_owner(self, owner: bytes, lives: Iterable[LiveRequest]) -> None:
        """Of these requests, and of rows that are leaving, nothing is kept for it any more."""
        for live in (*lives, *self._departing.values()):
            live.is_forgotten |= owner in owners_of(live.delivery.work)

    def clear(self) -> None:
        """All rows are void."""
        self._departing.clear()

    def lengths(self, step: Step) -> list[int]:
        """Tokens of each row that may be copied before the step."""
        leaving = (self._departing.get(one) or self._find_live(one) for one in step.leaves)
        lengths = [len(live.sequence.token_ids) for live in leaving if live is not None]
        return lengths + [join.num_tokens for join in step.joins]

    def before(self, step: Step) -> None:
        """Copy rows that the step is about to take away, and prompts that it completes."""
        if self._reuse is None:
            return
        for row_id in step.leaves:
            if (live := self._departing.pop(row_id, None) or self._find_live(row_id)) is not None:
                self._reuse.keep_row(live)
        for join in step.joins:
            if (live := self._find_live(join.row_id)) is not None:
                self._reuse.keep_prompt(live)

    def after(self, step: Step) -> None:
        """Copy rows whose slice ended where the copy is worth something, and what first tokens are
        drawn from."""
        if self._reuse is None:
            return
        for one in step.slices:
            live = self._find_live(one.row_ids[0])
            if one.ends_at_boundary and live is not None:
                self._reuse.keep_boundary(live)
        for join in step.first_draws:
            if (live := self._find_live(join.row_id)) is not None:
                self._reuse.keep_opening(live)

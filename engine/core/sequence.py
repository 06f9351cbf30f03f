"""A request inside the engine: its tokens, how far they are computed, its state. Live, one owner.

It does not know what a token means nor when an answer ends; answer.py does.
"""

from __future__ import annotations

from enum import StrEnum

from engine import wire
from engine.core.constraint import PendingGrammar
from engine.core.images import images_of, images_within
from engine.core.step import Join


class Status(StrEnum):
    WAITING = "waiting"
    RESTORING = "restoring"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"


class Sequence:
    """
        token_ids  [ prompt .......... | output known ... ]
                   [ computed ...... | to compute ......  ]

    Invariants:
    - the last known token is computed by the call that draws the next one: the batch's or, where
      the model lets it, the row's last slice;
    - `num_drawn` counts the output tokens asked of the device, known or still on their way;
    - num_output_tokens <= num_drawn <= max_tokens.

    `boundaries` are positions, ascending, at which a slice has to end: what the row's caches hold
    there is worth keeping. `sliced_tokens`: so many of the computed ones were not restored.
    `looked_share`: so much of looking at the next image is done.
    `races_from`: at so many computed tokens it began to compute what the disk may still bring;
    None when there is no such race.
    """

    def __init__(self, work: wire.Work, *, delivered_token_ids: tuple[int, ...], arrived_at: float):
        self.request_id = work.request_id
        self.tenant = work.tenant
        self.priority = work.priority
        self.sampling = work.sampling
        self.max_tokens = work.max_tokens
        self.num_prompt_tokens = len(work.prompt_token_ids)
        self.images = images_of(work)
        self.token_ids: list[int] = [*work.prompt_token_ids, *delivered_token_ids]
        self.arrived_at = arrived_at
        self.row_id: int | None = None
        self.has_lost_row = False  # memory was short, or a step failed
        self.status = Status.WAITING
        self.computed_tokens = 0
        self.sliced_tokens = 0
        self.looked_share = 0.0
        self.num_drawn = len(delivered_token_ids)
        self.boundaries: tuple[int, ...] = ()
        self.races_from: int | None = None
        self.grammar: PendingGrammar | None = None
        self.passed_since: int | None = None  # by the turnstile's count; None: it was not refused

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> tuple[int, ...]:
        return tuple(self.token_ids[self.num_prompt_tokens :])

    @property
    def slice_tokens_left(self) -> int:
        """Tokens that slices must compute before the row may join the batch; -1 while a slice draws
        its next one."""
        return len(self.token_ids) - 1 - self.computed_tokens

    def images_left(self, start: int, stop: int) -> float:
        """Of which a token is among these, less what was looked at of the next one."""
        if not self.images:
            return 0.0
        num_images = len(images_within(self.images, start, stop))
        return max(0.0, num_images - self.looked_share)

    @property
    def may_join(self) -> bool:
        """Nothing but the batch call is left to do before its next token, and the last is known."""
        return self.slice_tokens_left == 0 and self.is_free_to_draw

    @property
    def is_free_to_draw(self) -> bool:
        return self.grammar is None or self.grammar.is_ready

    @property
    def join(self) -> Join:
        assert self.row_id is not None
        return Join(
            row_id=self.row_id,
            prompt_token_ids=tuple(self.token_ids[: self.num_prompt_tokens]),
            output_token_ids=self.output_token_ids,
            sampling=self.sampling,
            grammar=self.grammar,
        )

    @property
    def next_boundary(self) -> int | None:
        """The position that the next slice may not pass."""
        return next((one for one in self.boundaries if one > self.computed_tokens), None)

    @property
    def may_draw(self) -> bool:
        return self.num_drawn < self.max_tokens

    def take(self, token_id: int) -> None:
        """An output token that no step has drawn."""
        self.token_ids.append(token_id)
        self.num_drawn += 1

    def forget_computed(self) -> None:
        """Go back to the start of the queue: what the device held for this row is lost."""
        self.status = Status.WAITING
        self.row_id = None
        self.has_lost_row = True
        self.computed_tokens = 0
        self.sliced_tokens = 0
        self.looked_share = 0.0
        self.boundaries = ()
        self.races_from = None
        self.num_drawn = self.num_output_tokens

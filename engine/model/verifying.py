"""Drafted tokens of a row that decodes alone, verified in one forward (speculative decoding).

At each of their positions is drawn what the batch would draw there: randomness is a function of
(seed, position). As long as that is what was drafted, the next position's draw counts as well. So
drafts change how fast an answer comes, never the answer, whatever its sampling is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from engine.core.drafting import Drafter
from engine.core.step import Drawn, Join, Step
from engine.model.batch import RowBatch
from engine.model.caches import Caches
from engine.model.drawing import Draw, submit_draw
from engine.model.sampling import BatchSampler, SampledRow

AllLogits = Callable[[mx.array, Caches], mx.array]


class Verification(NamedTuple):
    """Submitted: a draw at each position, of a row that is in `batch` alone."""

    batch: RowBatch
    row: SampledRow
    drafted: tuple[int, ...]
    draw: Draw
    vocab_size: int

    def read(self, token_bytes: Callable[[int], bytes]) -> tuple[tuple[Drawn, ...], SampledRow]:
        """Waits for it. What the row has drawn, and how it goes on; what was drafted wrongly is no
        part of it any more."""
        drawn = self.draw.read(token_bytes)
        pairs = zip(drawn, self.drafted, strict=False)
        is_right = [one.token_id == token_id and not one.is_undefined for one, token_id in pairs]
        num_right = [*is_right, False].index(False)
        drawn = drawn[: num_right + 1]
        token_ids = [one.token_id for one in drawn]
        self.batch.settle(len(self.drafted) - num_right, token_ids[-1])
        return drawn, self.row.after(token_ids, self.vocab_size)


class Verifier:
    """`all_logits`: of token ids [1, n] and caches, those behind each token [n, V]."""

    def __init__(self, drafter: Drafter, all_logits: AllLogits) -> None:
        self._drafter = drafter
        self._all_logits = all_logits
        self._known: dict[int, list[int]] = {}  # all tokens of the rows in the batch

    def join(self, joins: Iterable[Join]) -> None:
        for join in joins:
            self._known[join.row_id] = [*join.prompt_token_ids, *join.output_token_ids]

    def leave(self, row_ids: Iterable[int]) -> None:
        for row_id in row_ids:
            self._known.pop(row_id, None)

    def note(self, drawn: Iterable[Drawn]) -> None:
        for one in drawn:
            if (known := self._known.get(one.row_id)) is not None:
                known.append(one.token_id)

    def draft(self, step: Step, batch: RowBatch) -> tuple[int, ...]:
        """For the only row of the batch; what it has drawn is known."""
        (row_id,) = step.decodes
        most = min(step.most_draft_tokens, batch.room_to_verify - 1)
        return self._drafter.draft(row_id, self._known[row_id], at_most=most) if most > 0 else ()

    def submit(
        self, row_id: int, row: SampledRow, drafted: tuple[int, ...], batch: RowBatch
    ) -> Verification:
        token_ids = (self._known[row_id][-1], *drafted)
        inputs = mx.array([token_ids], mx.uint32)
        logits = batch.verify(partial(self._all_logits, inputs), len(token_ids))
        vocab_size, sampler = logits.shape[-1], BatchSampler()
        ahead = [drafted[:number] for number in range(len(token_ids))]
        sampler.arrange([row.after(one, vocab_size) for one in ahead])
        draw = submit_draw((row_id,) * len(token_ids), sampler, logits)
        return Verification(batch, row, drafted, draw, vocab_size)

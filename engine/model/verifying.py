"""Drafted tokens of a row that decodes alone, verified in one forward (speculative decoding).

At each of their positions is drawn what the batch would draw there: randomness is a function of
(seed, position). As long as that is what was drafted, the next position's draw counts as well. So
drafts change how fast an answer comes, never the answer, whatever its sampling is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

import mlx.core as mx

from engine.core.lookup import PromptLookup
from engine.core.step import DraftMemory, Drawn, Join, Step
from engine.model.batch import AllLogits, Read, RowBatch
from engine.model.draft_model import DraftModel
from engine.model.drawing import Draw, submit_draw
from engine.model.sampling import BatchSampler, SampledRow

RowOf = Callable[[int], SampledRow]


class Verification(NamedTuple):
    """Submitted: a draw at each position, of a row that is in `batch` alone. `token_ids`: its last
    known one, and those that were drafted."""

    batch: RowBatch
    row: SampledRow
    token_ids: tuple[int, ...]
    draw: Draw
    vocab_size: int
    read_again: Read

    @property
    def num_drafted(self) -> int:
        return len(self.token_ids) - 1

    def read(self, token_bytes: Callable[[int], bytes]) -> tuple[tuple[Drawn, ...], SampledRow]:
        """Waits for it. What the row has drawn, and how it goes on; what was drafted wrongly is no
        part of it any more."""
        drawn = self.draw.read(token_bytes)
        pairs = zip(drawn, self.token_ids[1:], strict=False)
        is_right = [one.token_id == token_id and not one.is_undefined for one, token_id in pairs]
        drawn = drawn[: [*is_right, False].index(False) + 1]
        token_ids = [one.token_id for one in drawn]
        self.batch.settle(self.token_ids, len(drawn), read=self.read_again)
        self.batch.feed(mx.array(token_ids[-1:], mx.uint32))
        return drawn, self.row.after(token_ids, self.vocab_size)


class Drafter(Protocol):
    """`draft`: tokens that may follow `token_ids`, which only grow while the row stays the same;
    `row` makes what draws the next one."""

    @property
    def memory(self) -> DraftMemory: ...
    def forget(self) -> None: ...
    def draft(
        self, row_id: int, token_ids: list[int], row: Callable[[], SampledRow], *, at_most: int
    ) -> tuple[int, ...]: ...


class TextDrafter:
    """From what the row has read or written; where that says nothing, by a smaller model."""

    def __init__(self, model: DraftModel | None = None) -> None:
        self._lookup, self._model = PromptLookup(), model

    @property
    def memory(self) -> DraftMemory:
        if self._model is None:
            return DraftMemory()
        return DraftMemory(token_bytes=self._model.token_bytes, held_bytes=self._model.num_bytes)

    def forget(self) -> None:
        if self._model is not None:
            self._model.forget()

    def draft(
        self, row_id: int, token_ids: list[int], row: Callable[[], SampledRow], *, at_most: int
    ) -> tuple[int, ...]:
        drafted = self._lookup.draft(row_id, token_ids, at_most=at_most)
        if drafted or self._model is None:
            return drafted
        return self._model.draft(row_id, token_ids, row, at_most=at_most)


class Verifier:
    """`row_of`: how a row draws next, counts and all. Without a drafter there is nothing to
    verify."""

    def __init__(
        self, drafter: Drafter | None, all_logits: AllLogits, read: Read, row_of: RowOf
    ) -> None:
        self._drafter = drafter
        self._all_logits, self._read = all_logits, read
        self._row_of = row_of
        self._known: dict[int, list[int]] = {}  # all tokens of the rows in the batch
        self.forget()

    def forget(self) -> None:
        """What drafting holds of a row; it can be had again."""
        self._drafted_row_id: int | None = None
        if self._drafter is not None:
            self._drafter.forget()

    def join(self, joins: Iterable[Join]) -> None:
        for join in joins if self._drafter is not None else ():
            self._known[join.row_id] = [*join.prompt_token_ids, *join.output_token_ids]

    def leave(self, row_ids: Iterable[int]) -> None:
        for row_id in row_ids:
            self._known.pop(row_id, None)
            if row_id == self._drafted_row_id:
                self.forget()

    def note(self, drawn: Iterable[Drawn]) -> None:
        for one in drawn:
            if (known := self._known.get(one.row_id)) is not None:
                known.append(one.token_id)

    def submit(self, step: Step, batch: RowBatch | None) -> Verification | None:
        """None where nothing is drafted. `batch`: that of the only row, which has no free places;
        what it has drawn is known."""
        most = min(step.most_draft_tokens, batch.room_to_verify - 1 if batch else 0)
        if self._drafter is None or batch is None or most <= 0:
            return None
        (row_id,) = step.decodes
        self._drafted_row_id = row_id
        known, row_of = self._known[row_id], partial(self._row_of, row_id)
        drafted = self._drafter.draft(row_id, known, row_of, at_most=most)
        return self._verify((known[-1], *drafted), row_of(), batch) if drafted else None

    def _verify(self, token_ids: tuple[int, ...], row: SampledRow, batch: RowBatch) -> Verification:
        """The last known token, and those that were drafted."""
        logits = batch.verify(token_ids, self._all_logits)
        vocab_size, sampler = logits.shape[-1], BatchSampler()
        ahead = [token_ids[1:stop] for stop in range(1, len(token_ids) + 1)]
        sampler.arrange([row.after(one, vocab_size) for one in ahead])
        draw = submit_draw(tuple(batch.places) * len(token_ids), sampler, logits)
        return Verification(batch, row, token_ids, draw, vocab_size, self._read)

"""The row batch of one model: rows join and leave between any two steps.

    level   all rows equally long: plain caches with several rows, no mask array
    padded  unequal lengths: mlx-lm's batch caches

A single row is always level. It does not know requests, sampling or policy.

Invariants: row_ids, lengths and the rows of caches and inputs are in one order; `lengths` counts
the tokens that the caches hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import mlx.core as mx

from engine.model import caches as row_caches
from engine.model.caches import Apart, Caches

_STEPS_BETWEEN_EVALUATIONS = 64  # lazy chains grow a node a step otherwise


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewRow:
    """A prefilled row: its caches hold `length` tokens, `token_id` comes next.

    A row that moves brings it as an array [1], which may still be being computed.
    """

    row_id: int
    token_id: int | mx.array
    length: int
    caches: Caches


class RowBatch:
    """`together_bytes`: so much of what is copied may be alive twice (caches.Apart). `aligns`: for
    matrix products on CUDA (aligned_rows.py)."""

    def __init__(self, model: Any, *, aligns: bool, together_bytes: int = 0):
        self._model = model
        self._aligns = aligns
        self._together_bytes = together_bytes
        self._caches: Caches = []
        self._is_level = True
        self._inputs: mx.array | None = None
        self._num_steps = 0
        self.row_ids: list[int] = []
        self.lengths: list[int] = []

    @property
    def is_level(self) -> bool:
        return self._is_level

    @property
    def num_bytes(self) -> int:
        return row_caches.num_bytes(self._caches)

    @property
    def full_tokens(self) -> int:
        return row_caches.full_tokens(self._caches)

    def forward(self) -> mx.array:
        """Logits [B, V] of the next position of every row. Lazy."""
        assert self._inputs is not None
        row_caches.make_room(self._caches, self._apart())
        logits = self._model(self._inputs[:, None], cache=self._caches)
        self.lengths = [length + 1 for length in self.lengths]
        self._num_steps += 1
        if self._num_steps % _STEPS_BETWEEN_EVALUATIONS == 0:
            row_caches.start_evaluating(self._caches)
        last: mx.array = logits[:, -1, :]
        return last

    def feed(self, token_ids: mx.array) -> None:
        """The drawn tokens [B] are the next inputs; they need not be evaluated."""
        self._inputs = token_ids

    def join(self, rows: list[NewRow]) -> None:
        """It takes the layers out of the rows' caches, as it does everywhere below."""
        for _ in self.joining(rows):
            pass

    def joining(self, rows: list[NewRow]) -> Iterator[None]:
        """A layer at a time: several batches that share rows' buffers go side by side."""
        added = [row.caches for row in rows]
        joined = []
        for layer in self._joined_layers(rows, added):
            joined.append(layer)
            yield
        self._caches = joined
        self.row_ids = self.row_ids + [row.row_id for row in rows]
        self.lengths = self.lengths + [row.length for row in rows]
        present = [] if self._inputs is None else [self._inputs.astype(mx.uint32)]
        self._inputs = mx.concatenate([*present, *(_input_of(row) for row in rows)])

    def extract(self, row_id: int) -> tuple[Caches, int]:
        """A row's caches as they stand, lazily, and how many tokens they hold."""
        index = self.row_ids.index(row_id)
        length = self.lengths[index]
        if self._is_level:
            return row_caches.level_row(self._caches, index), length
        return row_caches.padded_row(self._caches, index, num_tokens=length), length

    def give_all(self) -> list[NewRow]:
        """All rows, as other batches may take them; this one is then of no use any more."""
        assert self._inputs is not None
        given = []
        for index, row_id in enumerate(self.row_ids):
            caches, length = self.extract(row_id)
            token_id = self._inputs[index : index + 1].astype(mx.uint32)
            given.append(NewRow(row_id=row_id, token_id=token_id, length=length, caches=caches))
        self._caches = []
        return given

    def leave(self, row_ids: tuple[int, ...]) -> list[int]:
        """Remove these rows; the indices of those that stay."""
        kept = [index for index, one in enumerate(self.row_ids) if one not in row_ids]
        if len(kept) == len(self.row_ids):
            return kept
        self.row_ids = [self.row_ids[index] for index in kept]
        self.lengths = [self.lengths[index] for index in kept]
        if not kept:
            self._caches, self._inputs, self._is_level = [], None, True
            return kept
        assert self._inputs is not None
        self._inputs = self._inputs[mx.array(kept)]
        self._keep_caches(kept)
        return kept

    def _joined_layers(self, rows: list[NewRow], added: list[Caches]) -> Iterator[Any]:
        aligns, apart = self._aligns, self._apart()
        if not self._is_level:
            return row_caches.extending_padded(self._caches, added, apart, aligns=aligns)
        present, self._caches = self._caches, []
        lengths = {*self.lengths, *(row.length for row in rows)}
        parts = ([present] if present else []) + added
        if len(lengths) == 1 and row_caches.may_stack_level(parts):
            return self._stacking(parts)
        self._is_level = False
        singles = row_caches.split_level(present, len(self.row_ids))
        return row_caches.merging_padded(singles + added, apart, aligns=aligns)

    def _keep_caches(self, kept: list[int]) -> None:
        if self._is_level:
            row_caches.keep_level(self._caches, kept, self._apart())
        elif not self._level_out(kept):
            row_caches.keep_padded(self._caches, kept, self._apart(), longest=max(self.lengths))

    def _level_out(self, kept: list[int]) -> bool:
        """Without padding, where the rows that stay are equally long."""
        if len(set(self.lengths)) > 1:
            return False
        length = self.lengths[0]
        rows = [row_caches.padded_row(self._caches, row, num_tokens=length) for row in kept]
        if not row_caches.may_stack_level(rows):
            return False
        self._caches, self._is_level = [], True
        self._caches = list(self._stacking(rows))
        return True

    def _stacking(self, rows: list[Caches]) -> Iterator[Any]:
        if len(rows) == 1:
            return row_caches.owning(rows[0], self._apart())
        return row_caches.stacking_level(rows, self._apart())

    def _apart(self) -> Apart:
        return Apart(self._together_bytes)


def _input_of(row: NewRow) -> mx.array:
    given = row.token_id
    return given if isinstance(given, mx.array) else mx.array([given], mx.uint32)

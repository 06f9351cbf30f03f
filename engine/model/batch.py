"""The row batch of one model: rows join and leave between any two steps.

    level   all rows equally long: plain caches with several rows, no mask array
    padded  unequal lengths: mlx-lm's batch caches

A row that leaves frees its place, which is computed on as it stands until another row takes it:
that copies one row, and nobody else's. The batch is laid out anew where a row does not fit, where
buffers are full, and once free places have cost as much as the copy.

A single row is always level. It does not know requests, sampling or policy.

Invariants: places, lengths and the rows of caches and inputs are in one order; lengths count the
tokens that the caches hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx

from engine.model import caches as row_caches
from engine.model import rewinding
from engine.model.caches import Apart, Caches
from engine.model.layout import Kept
from engine.model.places import laying, may_lay
from engine.model.rewinding import States

Read = Callable[[mx.array, Caches], None]  # token ids [1, n]
AllLogits = Callable[[mx.array, Caches], mx.array]  # of each of them

_STEPS_BETWEEN_EVALUATIONS = 64  # lazy chains grow a node a step otherwise
_COPY_STEPS = 2.0  # what it takes to lay all rows out anew: they are read and written
_PLENTY_TOKENS = 1 << 20
_LITTLE_WASTE = 0.1  # is let be while rows come and go


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
    """`together_bytes`: so much of what is copied may be alive twice (caches.Apart)."""

    def __init__(self, model: Any, *, together_bytes: int = 0):
        self._model = model
        self._together_bytes = together_bytes
        self._caches: Caches = []
        self._is_level = True
        self._states: States | None = None  # of the row that is verified
        self._inputs: mx.array | None = None
        self._num_steps = 0
        self.places: list[int | None] = []  # the row in each line; None: free
        self._lengths: list[int] = []  # of each place
        self._end = 0  # columns in use: the longest row's tokens, were it here or not
        self._waste = 0.0  # the share of a step that is computed for nobody
        self._wasted_steps = 0.0  # since the batch was laid out
        self._steps_as_laid = 0

    @property
    def row_ids(self) -> list[int]:
        return [row_id for row_id in self.places if row_id is not None]

    @property
    def lengths(self) -> list[int]:
        """Of the rows."""
        return [self._lengths[place] for place in self._taken]

    @property
    def is_level(self) -> bool:
        return self._is_level

    @property
    def num_bytes(self) -> int:
        return row_caches.num_bytes(self._caches)

    @property
    def capacity(self) -> int:
        """Tokens that each place has room for; 0 where its bytes do not grow with them."""
        return row_caches.capacity(self._caches)

    @property
    def full_tokens(self) -> int:
        return row_caches.full_tokens(self._caches)

    @property
    def is_new(self) -> bool:
        """Its last step was the first since all rows were copied, and nobody took a place since."""
        return self._steps_as_laid == 1

    @property
    def is_worth_closing(self) -> bool:
        """The next step does so."""
        if self._wasted_steps >= _COPY_STEPS:
            return True
        return None in self.places and self.full_tokens > 0

    def forward(self) -> mx.array:
        """Logits [B, V] of the next position of every place. Lazy."""
        if self.is_worth_closing:
            self.close()
        assert self._inputs is not None
        row_caches.make_room(self._caches, self._apart())
        logits = self._model(self._inputs[:, None], cache=self._caches)
        if not self._is_level:
            row_caches.share_counts(self._caches)
        self._lengths = [length + 1 for length in self._lengths]
        self._end += 1
        self._wasted_steps += self._waste
        self._num_steps += 1
        self._steps_as_laid += 1
        if self._num_steps % _STEPS_BETWEEN_EVALUATIONS == 0:
            row_caches.start_evaluating(self._caches)
        last: mx.array = logits[:, -1, :]
        return last

    @property
    def room_to_verify(self) -> int:
        """How many more tokens the buffers of its only row hold."""
        assert len(self.places) == 1
        return self.capacity - self._end if self.capacity else _PLENTY_TOKENS

    def verify(self, token_ids: tuple[int, ...], logits_of: AllLogits) -> mx.array:
        """Logits [n, V] behind each of these tokens of the only row, which its caches hold then
        until `settle`. Lazy."""
        self._states = States(self._caches)
        self._lengths, self._end = [self._lengths[0] + len(token_ids)], self._end + len(token_ids)
        return logits_of(mx.array([token_ids], mx.uint32), self._caches)

    def settle(self, token_ids: tuple[int, ...], num_right: int, *, read: Read) -> None:
        """Of those tokens only the first so many are the row's. What comes next is to be fed."""
        num_wrong = len(token_ids) - num_right
        if num_wrong and self._states:
            self._states.restore()
            rewinding.cut(self._caches, len(token_ids))
            read(mx.array([token_ids[:num_right]], mx.uint32), self._caches)
            row_caches.evaluate(self._caches)  # this step has taken it, not the next one
        elif num_wrong:
            rewinding.cut(self._caches, num_wrong)
        self._states = None
        self._lengths, self._end = [self._lengths[0] - num_wrong], self._end - num_wrong

    def feed(self, token_ids: mx.array) -> None:
        """The drawn tokens [B] are the next inputs; they need not be evaluated."""
        self._inputs = token_ids

    def join(self, rows: list[NewRow]) -> None:
        """It takes the layers out of the rows' caches, as it does everywhere below."""
        for _ in self.joining(rows):
            pass

    def joining(self, rows: list[NewRow]) -> Iterator[None]:
        """A layer at a time: several batches that share rows' buffers go side by side."""
        if self._has_places_for([row.length for row in rows]):
            yield from self._taking_places(rows)
            return
        taken, lengths = self._taken, self.lengths
        added = [row.caches for row in rows]
        joined = []
        for layer in self._joined_layers(rows, added):
            joined.append(layer)
            yield
        self._caches = joined
        present = [] if not taken else [self._inputs_of(taken).astype(mx.uint32)]
        self._inputs = mx.concatenate([*present, *(_input_of(row) for row in rows)])
        self._note_rows(
            [*(self.places[place] for place in taken), *(row.row_id for row in rows)],
            lengths + [row.length for row in rows],
        )

    def is_laid_out_by(
        self, leaves: tuple[int, ...], added: list[int], *, closes: bool = False
    ) -> bool:
        """Whether all rows are copied when these leave and rows of these lengths join. `closes`:
        it is closed in between."""
        if added and not self._has_places_for(added, leaves):
            return True
        if not (closes or self.full_tokens):
            return False
        staying = [place for place in self._taken if self.places[place] not in leaves]
        longest = max(self._lengths[place] for place in staying)
        return len(staying) < len(self.places) or longest < self._end

    def _has_places_for(self, lengths: list[int], leaves: tuple[int, ...] = ()) -> bool:
        num_free = sum(one is None or one in leaves for one in self.places)
        if self._is_level or not len(lengths) <= num_free < len(self.places):
            return False
        return max(lengths) <= self._end and may_lay(self._caches)

    def extract(self, row_id: int) -> tuple[Caches, int]:
        """A row's caches as they stand, lazily, and how many tokens they hold."""
        place = self.places.index(row_id)
        return self._row(place), self._lengths[place]

    def give_all(self) -> list[NewRow]:
        """All rows, as other batches may take them; this one is then of no use any more."""
        given = []
        for place in self._taken:
            row_id = self.places[place]
            assert row_id is not None
            token_id = self._inputs_of([place]).astype(mx.uint32)
            caches, length = self._row(place), self._lengths[place]
            given.append(NewRow(row_id=row_id, token_id=token_id, length=length, caches=caches))
        self._caches = []
        return given

    def leave(self, row_ids: tuple[int, ...]) -> None:
        """The places of these rows are free."""
        self.places = [None if one in row_ids else one for one in self.places]
        if self._taken:
            self._waste = self._wasted_share()
        else:
            self._caches, self._inputs, self._is_level = [], None, True
            self._note_rows([], [])

    def close(self) -> None:
        """Lay the rows out without free places, and without padding that only rows needed that have
        left."""
        taken, lengths = self._taken, self.lengths
        if len(taken) < len(self.places) or max(lengths) < self._end:
            self._inputs = self._inputs_of(taken)
            self._keep_caches(taken, lengths)
            self._note_rows([self.places[place] for place in taken], lengths)

    @property
    def _taken(self) -> list[int]:
        return [place for place, one in enumerate(self.places) if one is not None]

    @property
    def _kept(self) -> Kept:
        taken = self._taken
        return Kept(taken, self.lengths, is_everyone=len(taken) == len(self.places))

    def _wasted_share(self) -> float:
        lengths = self.lengths
        return 1 - len(lengths) * max(lengths) / (len(self.places) * max(1, self._end))

    def _note_rows(self, places: list[int | None], lengths: list[int]) -> None:
        self.places, self._lengths, self._end = places, lengths, max(lengths, default=0)
        self._waste = self._wasted_steps = 0.0
        self._steps_as_laid = 0

    def _inputs_of(self, places: list[int]) -> mx.array:
        assert self._inputs is not None
        return self._inputs if len(places) == len(self.places) else self._inputs[mx.array(places)]

    def _row(self, place: int) -> Caches:
        if self._is_level:
            return row_caches.level_row(self._caches, place)
        return row_caches.padded_row(self._caches, place, num_tokens=self._lengths[place])

    def _taking_places(self, rows: list[NewRow]) -> Iterator[None]:
        free = [place for place, one in enumerate(self.places) if one is None]
        inputs = self._inputs_of(list(range(len(self.places)))).astype(mx.uint32)
        for place, row in zip(free, rows, strict=False):
            self.places[place], self._lengths[place] = row.row_id, row.length
            inputs[place : place + 1] = _input_of(row)
        self._inputs, self._steps_as_laid = inputs, 1
        laid = {place: row.caches for place, row in zip(free, rows, strict=False)}
        for _ in laying(self._caches, laid, self._lengths):
            yield
        self._waste = self._wasted_share()
        if self._waste < _LITTLE_WASTE:
            self._wasted_steps = 0.0

    def _joined_layers(self, rows: list[NewRow], added: list[Caches]) -> Iterator[Any]:
        apart, taken, lengths = self._apart(), self._taken, self.lengths
        if not self._is_level:
            return row_caches.extending_padded(self._caches, self._kept, added, apart)
        singles = [row_caches.level_row(self._caches, place) for place in taken]
        present = [self._caches] if 0 < len(taken) == len(self.places) else singles
        self._caches = []
        is_even = len({*lengths, *(row.length for row in rows)}) == 1
        if is_even and row_caches.may_stack_level(present + added):
            return self._stacking(present + added)
        self._is_level = False
        return row_caches.merging_padded(singles + added, apart)

    def _keep_caches(self, kept: list[int], lengths: list[int]) -> None:
        if self._is_level:
            row_caches.keep_level(self._caches, kept, self._apart())
        elif not self._level_out(kept, lengths):
            laid = row_caches.extending_padded(self._caches, self._kept, [], self._apart())
            self._caches = list(laid)

    def _level_out(self, kept: list[int], lengths: list[int]) -> bool:
        """Without padding, where the rows that stay are equally long."""
        if len(set(lengths)) > 1:
            return False
        rows = [row_caches.padded_row(self._caches, place, num_tokens=lengths[0]) for place in kept]
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

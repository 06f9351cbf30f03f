"""The rows of a model in one batch, or in a few where one would mostly hold padding.

To the runner it is one batch: the places of all groups one after the other, one array of logits.
Which rows share a group is core/group_policy.py's.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable
from functools import partial
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from engine.core.group_policy import SHARE_TO_FILL, GroupPolicy, Groups, Lengths
from engine.core.step import Group
from engine.model import caches as row_caches
from engine.model.batch import NewRow, RowBatch
from engine.model.caches import Caches

_CALL_BYTES = 64 * 1024**2  # what a call of the model costs beside its weights, as bytes read


class GroupedBatch:
    """`row_ids` in the order of joining. `pass_bytes`: what another call of the model costs.
    `most_bytes`: what all rows' caches may take, with their padding. `together_bytes`: so much of
    what is copied may be alive twice."""

    def __init__(self, model: Any, *, pass_bytes: int, together_bytes: int = 0):
        self._new_batch = partial(RowBatch, model, together_bytes=together_bytes)
        self._policy = GroupPolicy(pass_bytes=pass_bytes)
        self._groups: list[RowBatch] = []
        self.row_ids: list[int] = []

    @property
    def most_bytes(self) -> float:
        return self._policy.most_bytes

    @most_bytes.setter
    def most_bytes(self, most_bytes: float) -> None:
        self._policy.most_bytes = most_bytes

    @property
    def num_groups(self) -> int:
        return len(self._groups)

    @property
    def is_new(self) -> bool:
        """All rows were copied in the last step."""
        return all(group.is_new for group in self._groups)

    @property
    def num_bytes(self) -> int:
        return sum(group.num_bytes for group in self._groups)

    @property
    def places(self) -> tuple[int | None, ...]:
        """Whose each line of the logits is; None: nobody's."""
        return tuple(itertools.chain.from_iterable(group.places for group in self._groups))

    @property
    def growing(self) -> tuple[tuple[int, int], ...]:
        """Rows and tokens of each group whose buffers the next step makes larger."""
        full = ((len(group.row_ids), group.full_tokens) for group in self._groups)
        return tuple(one for one in full if one[1])

    @property
    def closing_bytes(self) -> int:
        """Of groups that the next step lays out anew whoever joins."""
        return sum(group.num_bytes for group in self._groups if group.is_worth_closing)

    def forward(self) -> mx.array:
        """Logits [B, V] of the next position of every place, which may not be those of before.
        Lazy."""
        logits = [group.forward() for group in self._groups]
        return logits[0] if len(logits) == 1 else mx.concatenate(logits)

    @property
    def lone(self) -> RowBatch | None:
        """Where it is a single group of a single row, free places included."""
        is_lone = len(self._groups) == 1 and len(self._groups[0].places) == 1
        return self._groups[0] if is_lone else None

    def feed(self, token_ids: mx.array) -> None:
        """The drawn tokens [B] are the next inputs; they need not be evaluated."""
        first = 0
        for group in self._groups:
            last = first + len(group.places)
            group.feed(token_ids[first:last])
            first = last

    def groups_after(
        self, leaves: tuple[int, ...], joining: dict[int, tuple[Caches, int]]
    ) -> tuple[Group, ...]:
        """Its batches when these rows have left and these, of caches and a length, have joined."""
        self._note_rows(caches for caches, _ in joining.values())
        groups, lengths = self._without(leaves)
        if len(lengths) < len(self.row_ids) and groups:
            groups = self._policy.after_leaving(groups, lengths)
        if joining:
            lengths |= {one: _room_tokens(length) for one, (_, length) in joining.items()}
            groups = self._policy.after_joining(groups, list(joining), lengths)
        closes = self._must_close(leaves)
        new = {row_id: length for row_id, (_, length) in joining.items()}
        return tuple(self._group_after(one, lengths, leaves, new, closes=closes) for one in groups)

    def _group_after(
        self,
        row_ids: list[int],
        lengths: Lengths,
        leaves: tuple[int, ...],
        new: dict[int, int],
        *,
        closes: bool,
    ) -> Group:
        group = self._grown(row_ids, new, leaves=leaves)
        longest = max(lengths[one] for one in row_ids)
        added = [new[one] for one in row_ids if one in new]
        if group is None or group.is_laid_out_by(leaves, added, closes=closes):
            return Group(num_rows=len(row_ids), num_tokens=longest, moves=True)
        return Group(num_rows=len(group.places), num_tokens=group.capacity or longest, moves=False)

    def join(self, rows: list[NewRow]) -> None:
        self._note_rows(row.caches for row in rows)
        groups, lengths = self._without(())
        lengths |= {row.row_id: _room_tokens(row.length) for row in rows}
        groups = self._policy.after_joining(groups, [row.row_id for row in rows], lengths)
        self.row_ids = list(lengths)
        self._regroup(groups, {row.row_id: row for row in rows})

    def leave(self, row_ids: tuple[int, ...]) -> None:
        """The places of these rows are free; or gone, where memory is wanted by others soon."""
        kept = [one for one in self.row_ids if one not in row_ids]
        if len(kept) == len(self.row_ids):
            return
        closes = self._must_close(row_ids)
        self.row_ids = kept
        for group in self._groups:
            group.leave(row_ids)
        self._groups = [group for group in self._groups if group.row_ids]
        if not self._groups:
            return
        groups, lengths = self._without(())
        self._regroup(self._policy.after_leaving(groups, lengths), {})
        if closes:
            for group in self._groups:
                group.close()

    def _must_close(self, leaves: tuple[int, ...]) -> bool:
        """When these leave."""
        is_scarce = self.num_bytes > SHARE_TO_FILL * self.most_bytes
        return is_scarce and not set(leaves).isdisjoint(self.row_ids)

    def extract(self, row_id: int) -> tuple[Caches, int]:
        """A row's caches as they stand, lazily, and how many tokens they hold."""
        return self._group_of(row_id).extract(row_id)

    def _without(self, row_ids: tuple[int, ...]) -> tuple[Groups, Lengths]:
        """The groups without these rows, and what the others' caches have room for: buffers grow by
        whole steps."""
        rest = [[one for one in group.row_ids if one not in row_ids] for group in self._groups]
        room = {
            row_id: _room_tokens(length)
            for group in self._groups
            for row_id, length in zip(group.row_ids, group.lengths, strict=True)
        }
        lengths = {one: room[one] for one in self.row_ids if one not in row_ids and one in room}
        return [group for group in rest if group], lengths

    def _note_rows(self, rows: Iterable[Caches]) -> None:
        """What a token takes, of the first row that holds one: all of a model's are alike."""
        for caches in rows:
            if not self._policy.bytes_per_token:
                self._policy.bytes_per_token = row_caches.bytes_per_token(caches)

    def _regroup(self, wanted: Groups, new: dict[int, NewRow]) -> None:
        """Groups with these rows: those that are there and only grow, and others made of the rest,
        side by side, so that a layer's old buffers go before the next layer is copied."""
        kept = [self._grown(row_ids, new) for row_ids in wanted]
        given = {
            row.row_id: row
            for group in self._groups
            if not any(group is one for one in kept)
            for row in group.give_all()
        }
        rest = given | new
        made = [self._new_batch() if one is None else one for one in kept]
        joining = [
            group.joining([rest[row_id] for row_id in row_ids if row_id not in group.row_ids])
            for group, row_ids in zip(made, wanted, strict=True)
            if len(group.row_ids) < len(row_ids)
        ]
        for _ in zip(*joining, strict=True):
            pass
        self._groups = made

    def _grown(
        self, wanted: list[int], new: Container[int], *, leaves: tuple[int, ...] = ()
    ) -> RowBatch | None:
        """The group that becomes this one by nothing but new rows, when these have left."""
        old = {one for one in wanted if one not in new}
        rest = (group for group in self._groups if {*group.row_ids}.difference(leaves) == old)
        return next(rest, None) if old else None

    def _group_of(self, row_id: int) -> RowBatch:
        return next(group for group in self._groups if row_id in group.row_ids)


def _room_tokens(length: int) -> int:
    step: int = KVCache.step
    return -(-(length + 1) // step) * step


def pass_bytes_of(model: Any) -> int:
    """The weights, which every call reads, and the call itself."""
    parameters: Any = tree_flatten(model.parameters())
    return _CALL_BYTES + sum(int(array.nbytes) for _, array in parameters)

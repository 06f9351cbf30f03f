"""Which of a model's rows share a batch, as rows come and go. Pure numbers.

Rows move between groups only where that saves a fifth, or where memory has no room for the padding.
"""

from __future__ import annotations

import itertools
import math

from engine.core.grouping import group_within, padded_bytes

WORTH_MOVING = 0.8
SHARE_TO_FILL = 0.75  # of what rows may take, by padding that saves passes

Groups = list[list[int]]
Lengths = dict[int, int]  # of each row, in the order in which they joined


class GroupPolicy:
    """`pass_bytes`: what another call of the model costs. `most_bytes`: what all rows' caches may
    take, with their padding. `lengths`: tokens that buffers have room for."""

    def __init__(self, *, pass_bytes: int) -> None:
        self._pass_bytes = pass_bytes
        self.bytes_per_token = 0.0
        self.most_bytes: float = math.inf
        self._last_best: tuple[tuple[object, ...], Groups] = ((), [])

    def after_leaving(self, groups: Groups, lengths: Lengths) -> Groups:
        """Fewer passes for the rows that stay, where memory is not wanted by others soon."""
        if _are_even(groups, lengths):
            return groups
        best = self._best(lengths)
        padded = max(self._padded_bytes(one, lengths) for one in (groups, best))
        if padded > SHARE_TO_FILL * self.most_bytes:
            return groups
        return self._cheaper(groups, lengths)

    def after_joining(self, groups: Groups, added: list[int], lengths: Lengths) -> Groups:
        """The groups as they are, each new row added where it costs least, or better ones."""
        if _are_even(groups, lengths):
            return [[*itertools.chain(*groups), *added]]
        for row_id in added:
            choices = [
                [*groups[:at], [*groups[at], row_id], *groups[at + 1 :]]
                for at in range(len(groups))
            ]
            choices.append([*groups, [row_id]])
            groups = min(choices, key=lambda choice: self._cost(choice, lengths))
        return self._cheaper(groups, lengths)

    def _cheaper(self, groups: Groups, lengths: Lengths) -> Groups:
        best = self._best(lengths)
        is_cheaper = self._cost(best, lengths) < WORTH_MOVING * self._cost(groups, lengths)
        if is_cheaper or self._padded_bytes(groups, lengths) > self.most_bytes:
            return best
        return groups

    def _best(self, lengths: Lengths) -> Groups:
        key = (*lengths.items(), self.bytes_per_token, self.most_bytes)
        if key != self._last_best[0]:
            row_ids = list(lengths)
            groups = group_within(
                list(lengths.values()),
                pass_bytes=self._pass_bytes,
                bytes_per_token=self.bytes_per_token,
                most_bytes=SHARE_TO_FILL * self.most_bytes,
            )
            self._last_best = key, [[row_ids[place] for place in group] for group in groups]
        return self._last_best[1]

    def _cost(self, groups: Groups, lengths: Lengths) -> float:
        return padded_bytes(
            groups, lengths, pass_bytes=self._pass_bytes, bytes_per_token=self.bytes_per_token
        )

    def _padded_bytes(self, groups: Groups, lengths: Lengths) -> float:
        return padded_bytes(groups, lengths, pass_bytes=0, bytes_per_token=self.bytes_per_token)


def _are_even(groups: Groups, lengths: Lengths) -> bool:
    """They are one group without padding: nothing costs less."""
    return len(groups) <= 1 and len(set(lengths.values())) == 1

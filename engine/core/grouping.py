"""Which rows decode together. Pure numbers.

A batch is padded to its longest row, so one long row makes every short one as expensive. Another
pass over the weights for a group of its own costs

    pass_bytes + rows * longest * bytes_per_token

and the groups with the least sum are those of neighbours in the order of lengths. All rows grow by
one token a step, so that the best groups stay the best until a row comes or goes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

MAX_GROUPS = 4
_PASSES_WORTH = (1.0, 0.1, 0.0)  # where memory is short, a pass counts less than padding


def group_by_length(
    lengths: Sequence[int], *, pass_bytes: float, bytes_per_token: float
) -> list[list[int]]:
    """The places of `lengths` in groups, each in ascending order; by default one group."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    if not order or bytes_per_token <= 0:
        return [order] if order else []
    # No group saves more than all padding: of equal rows none is worth a pass, nor a search
    padding = len(order) * max(lengths) - sum(lengths)
    worth_a_pass = padding * bytes_per_token // pass_bytes if pass_bytes else MAX_GROUPS
    most_groups = min(MAX_GROUPS, 1 + int(worth_a_pass))

    @functools.cache
    def best(stop: int, groups: int) -> tuple[float, tuple[int, ...]]:
        """The least cost of the first `stop` rows in at most so many groups; where each begins."""
        if stop == 0:
            return 0.0, ()
        if groups == 0:
            return float("inf"), ()
        longest = lengths[order[stop - 1]]
        choices = []
        for start in range(stop):
            before, starts = best(start, groups - 1)
            cost = before + pass_bytes + (stop - start) * longest * bytes_per_token
            choices.append((cost, (*starts, start)))
        return min(choices)

    _, starts = best(len(order), most_groups)
    stops = (*starts[1:], len(order))
    return [sorted(order[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def group_within(
    lengths: Sequence[int], *, pass_bytes: float, bytes_per_token: float, most_bytes: float
) -> list[list[int]]:
    """The same, with as many further groups as it takes until the rows, padded, need no more than
    `most_bytes`; if they always do, those with the least padding."""
    groups: list[list[int]] = []
    for worth in _PASSES_WORTH:
        groups = group_by_length(
            lengths, pass_bytes=worth * pass_bytes, bytes_per_token=bytes_per_token
        )
        needed = padded_bytes(groups, lengths, pass_bytes=0, bytes_per_token=bytes_per_token)
        if needed <= most_bytes:
            break
    return groups


def padded_bytes(
    groups: Sequence[Sequence[int]],
    lengths: Sequence[int] | Mapping[int, int],
    *,
    pass_bytes: float,
    bytes_per_token: float,
) -> float:
    """What a step reads with these groups of places, or of names, in `lengths`."""
    return sum(
        pass_bytes + len(group) * max(lengths[place] for place in group) * bytes_per_token
        for group in groups
    )

"""Which rows decode together. Pure numbers.

A batch is padded to its longest row, so one long row makes every short one as expensive. Another
pass over the weights for a group of its own costs

    pass_bytes + rows * longest * bytes_per_token

and the groups with the least sum are those of neighbours in the order of lengths. All rows grow by
one token a step, so that the best groups stay the best until a row comes or goes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

MAX_GROUPS = 4
_PASSES_WORTH = (1.0, 0.1, 0.0)  # where memory is short, a pass counts less than padding


def group_by_length(
    lengths: Sequence[int], *, pass_bytes: float, bytes_per_token: float
) -> list[list[int]]:
    """The places of `lengths` in groups, each in ascending order; by default one group."""
    if not lengths or bytes_per_token <= 0:
        return [list(range(len(lengths)))] if lengths else []
    places: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        places.setdefault(length, []).append(place)
    ordered = sorted(places)
    parts = _cheapest_parts(
        ordered, [len(places[one]) for one in ordered], pass_tokens=pass_bytes / bytes_per_token
    )
    return [sorted(itertools.chain(*(places[one] for one in ordered[part]))) for part in parts]


def least_padded(lengths: Iterable[int]) -> list[tuple[int, int]]:
    """Rows and longest of the groups with the least padding, as many as there may be."""
    counts = Counter(lengths)
    ordered = sorted(counts)
    parts = _cheapest_parts(ordered, [counts[one] for one in ordered], pass_tokens=0)
    return [(sum(counts[one] for one in ordered[part]), ordered[part][-1]) for part in parts]


def _cheapest_parts(
    lengths: Sequence[int], counts: Sequence[int], *, pass_tokens: float
) -> list[slice]:
    """Neighbours among ascending lengths, of each so many rows, in at most MAX_GROUPS parts with
    the least sum of

        pass_tokens + rows * longest
    """
    rows = [0, *itertools.accumulate(counts)]
    total = sum(length * count for length, count in zip(lengths, counts, strict=True))
    padding = rows[-1] * max(lengths, default=0) - total
    # No part saves more than all padding: of equal rows none is worth a pass, nor a search
    most_parts = min(MAX_GROUPS, 1 + int(padding // pass_tokens)) if pass_tokens else MAX_GROUPS
    costs = [0.0, *[math.inf] * len(lengths)]  # of the first so many lengths
    parts: list[list[slice]] = [[] for _ in costs]
    for _ in range(most_parts):
        for stop in range(len(lengths), 0, -1):  # what is before has one part less
            longest = lengths[stop - 1]
            cost, start = min(
                (costs[start] + pass_tokens + (rows[stop] - rows[start]) * longest, start)
                for start in range(stop)
            )
            if cost < costs[stop]:
                costs[stop], parts[stop] = cost, [*parts[start], slice(start, stop)]
    return parts[-1]


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

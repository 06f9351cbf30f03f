"""What a model takes with all its rows at full length, and what of that fits under a ceiling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine.sizing.estimate import Estimate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """`num_rows` rows of `row_tokens` tokens. `most_rows`: so many of this length fit;
    `most_tokens`: so long may all of them be; `most_tokens_alone`: so long one of them that is
    computed in the smallest slices, as it is where memory is short. None where no ceiling is known.
    """

    weight_bytes: int
    row_bytes: int
    working_bytes: int
    num_rows: int
    row_tokens: int
    ceiling_bytes: int | None = None
    most_rows: int | None = None
    most_tokens: int | None = None
    most_tokens_alone: int | None = None

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.row_bytes + self.working_bytes

    @property
    def fits(self) -> bool:
        return self.ceiling_bytes is None or self.total_bytes <= self.ceiling_bytes


def plan_memory(
    estimate: Estimate,
    *,
    weight_bytes: int,
    num_rows: int,
    row_tokens: int,
    slice_tokens: int,
    ceiling_bytes: int | None,
) -> MemoryPlan:
    def fits(rows: int, tokens: int) -> bool:
        needed_bytes = weight_bytes + sum(_parts(estimate, rows, tokens, slice_tokens))
        return ceiling_bytes is None or needed_bytes <= ceiling_bytes

    def fits_alone(tokens: int) -> bool:
        return ceiling_bytes is None or weight_bytes + estimate.alone_bytes(tokens) <= ceiling_bytes

    row_bytes, working_bytes = _parts(estimate, num_rows, row_tokens, slice_tokens)
    plan = MemoryPlan(
        weight_bytes=weight_bytes,
        row_bytes=row_bytes,
        working_bytes=working_bytes,
        num_rows=num_rows,
        row_tokens=row_tokens,
        ceiling_bytes=ceiling_bytes,
    )
    if ceiling_bytes is None:
        return plan
    return dataclasses.replace(
        plan,
        most_rows=_most(num_rows, lambda rows: fits(rows, row_tokens)),
        most_tokens=_most(row_tokens, lambda tokens: fits(num_rows, tokens)),
        most_tokens_alone=_most(row_tokens, fits_alone),
    )


def _parts(
    estimate: Estimate, num_rows: int, row_tokens: int, slice_tokens: int
) -> tuple[int, int]:
    """The rows' caches, and what is computed with beside them."""
    if num_rows == 0 or row_tokens == 0:
        return 0, 0
    longest_slice = min(slice_tokens, row_tokens)
    working_bytes = max(
        estimate.slice_bytes(longest_slice, row_tokens - longest_slice),
        estimate.step_bytes(num_rows, row_tokens),
    )
    return estimate.batch_bytes([row_tokens] * num_rows), working_bytes


def _most(at_most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `at_most` that fits; 0 if none does. More never fits better."""
    fewest, most = 0, at_most
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if fits(middle):
            fewest = middle
        else:
            most = middle - 1
    return fewest

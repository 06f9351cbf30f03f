"""Which inputs of embeddings and rerankings are computed together next. Pure: numbers only.

Inputs of a bundle are padded to its longest, so they are of about one length. One that is too long
for a turn is a bundle alone, and is computed over several turns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from engine import wire
from engine.core.cost import CostModel
from engine.core.urgency import urgency

_MOST_TOKENS = 8192  # padding included; more at once computes no faster
_SIMILAR_FACTOR = 2

Fits = Callable[[int, int], bool]  # so many rows of so many tokens, padding included, into memory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One row of tokens, the `place`th of its request."""

    request_id: str
    place: int
    token_ids: tuple[int, ...]


@dataclasses.dataclass(slots=True, kw_only=True)
class Pending:
    """What is still to be computed of one request, shortest first. `arrived_at`: seconds."""

    inputs: list[Input]
    priority: wire.Priority
    arrived_at: float

    @property
    def num_tokens(self) -> int:
        return sum(len(one.token_ids) for one in self.inputs)

    def shorter(self, most_tokens: int, *, but: Input) -> Pending:
        """The same with none that are longer, and without `but`."""
        inputs = [i for i in self.inputs if i is not but and len(i.token_ids) <= most_tokens]
        return dataclasses.replace(self, inputs=inputs)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is computed next: `width` tokens of each row. Those of a piece follow `start` others of
    its one row; all other rows are whole, and padded."""

    bundle: tuple[Input, ...]
    width: int
    start: int = 0
    is_piece: bool = False

    @classmethod
    def of(cls, bundle: tuple[Input, ...], most_tokens: int) -> Turn:
        """A row that is longer begins with a piece. It is alone."""
        longest = max(len(one.token_ids) for one in bundle)
        is_piece = len(bundle) == 1 and longest > most_tokens
        return cls(bundle=bundle, width=most_tokens if is_piece else longest, is_piece=is_piece)

    @property
    def num_tokens(self) -> int:
        """Padding included."""
        return self.width * len(self.bundle)


def plan_bundle(
    pending: Sequence[Pending],
    *,
    cost: CostModel,
    seconds: float,
    now: float,
    max_rows: int,
    fits: Fits = lambda num_rows, num_tokens: True,
) -> tuple[Input, ...]:
    """At least one input, and as many as fit into `seconds`. The most urgent request goes first;
    others fill what room is left with inputs of its lengths."""
    ordered = sorted(pending, key=lambda one: _urgency(one, cost, now))
    inputs = [one for request in ordered for one in request.inputs]
    bundle = [inputs[0]]
    longest = shortest = len(inputs[0].token_ids)
    for one in inputs[1:]:
        length = len(one.token_ids)
        wider, narrower = max(longest, length), min(shortest, length)
        if len(bundle) == max_rows:
            break
        if wider > _SIMILAR_FACTOR * narrower + 8:
            continue
        num_rows = len(bundle) + 1
        if wider * num_rows > _MOST_TOKENS or cost.predict(wider, rows=num_rows) > seconds:
            break
        if not fits(num_rows, wider):
            break
        bundle.append(one)
        longest, shortest = wider, narrower
    return tuple(bundle)


def _urgency(request: Pending, cost: CostModel, now: float) -> float:
    num_rows = len(request.inputs)
    work = cost.predict(request.num_tokens // num_rows, rows=num_rows)
    waited = now - request.arrived_at
    return urgency(work, waited_seconds=waited, priority=request.priority)

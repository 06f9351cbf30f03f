"""Which prompts get how many tokens in one slice turn. Pure, greedy, a few lines of policy.

Shortest remaining work first, so that a long prompt never blocks a short one; waiting counts, so
that no prompt starves, a lower class's beyond its patience. Several short tails share a turn, and
short prompts that start level are cut as one rectangle: one forward without padding. A last slice
draws the answer's first token, if that makes it no longer to speak of.
Where a device plans for each shape that it has not met (CUDA), long slices lie on a grid, so that
their shapes come back from prompt to prompt. An image is never cut, and a slice has one at most;
where looking at it takes too long, layers of the tower are computed by themselves before.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from engine.core.cost import CostModel
from engine.core.images import Image, images_within, whole_images
from engine.core.looking import layers_before, look
from engine.core.pacing import Pace
from engine.core.sequence import Sequence
from engine.core.step import Slice
from engine.core.urgency import urgency

EFFICIENT_TOKENS = 512  # in one forward; a larger one only delays its rows
EFFICIENT_ON_GRID_TOKENS = 2048  # half as many are as many more shapes
ANY_SHAPE_SCORES = 2**19  # queries by keys; slices of fewer need no plan (model/cuda_attention.py)
_LINE_TOKENS = 1024  # of the grid
_GRID_WIDTHS = (2048, 1024, 512, 256)
_SIMILAR_FACTOR = 2
_AS_LONG_FACTOR = 1.25
_LEAST_RACE_TOKENS = 256
_LONG_TURN_SECONDS = 1.0  # then newcomers and cancels are looked at, however long a stall may be


def plan_slices(
    prompts: list[Sequence],
    *,
    cost: CostModel,
    pace: Pace,
    seconds: float,
    now: float,
    on_grid: bool = False,
    tower_layers: int = 1,
    drawing_seconds: float = 0.0,
) -> tuple[Slice, ...]:
    """At least one slice, and as many as fit into `seconds`. Those that complete prompts and take
    no longer than `drawing_seconds` draw. Advances the sequences.

    Prompts that are complete do not wait for a piece of one that is not, nor for one that takes
    longer than a stall and clearly longer than they did: their turn ends there.
    A row that reaches a boundary rests until the next turn, for its caches are copied in between;
    so does one that races the disk, for it may leap.
    """
    slices: list[Slice] = []
    spent, num_tokens, has_complete = 0.0, 0, False
    resting: set[str] = set()
    while pending := [one for one in prompts if _may_go_on(one, resting)]:
        pending.sort(key=lambda one: _urgency(one, cost, now))
        left = seconds - spent
        width = _width(pending[0], cost=cost, pace=pace, seconds=left)
        if slices and width < min(pace.least_slice_tokens, _tokens_to_stop(pending[0])):
            break
        width = max(width, min(pace.least_slice_tokens, _tokens_to_stop(pending[0])))
        if on_grid:
            width = _grid_width(width, pending[0])
            if slices and width < min(_LINE_TOKENS, pending[0].slice_tokens_left):
                break
        width = _width_of_whole_images(pending[0], width)
        alone = _seconds(pending[0], width, cost)
        may_last = alone > left or not cost.image_seconds
        if may_last and _next_images(pending[0], width):
            if slices:
                break
            if layers := layers_before(pending[0], cost, seconds=left, of_layers=tower_layers):
                return (look(pending[0], layers, of_layers=tower_layers),)
        is_long = pace.decode_share > 0 and alone > max(pace.stall_seconds, _AS_LONG_FACTOR * spent)
        if has_complete and (is_long or width < pending[0].slice_tokens_left):
            break
        rows = _rectangle(pending, width, cost=cost, seconds=left)
        num_tokens += width * len(rows)
        if slices and pace.most_turn_tokens is not None and num_tokens > pace.most_turn_tokens:
            break
        expected = _seconds(rows[0], width, cost, num_rows=len(rows))
        slices.append(_cut(rows, width, may_draw=expected <= drawing_seconds))
        has_complete = has_complete or rows[0].slice_tokens_left <= 0
        if slices[-1].ends_at_boundary or rows[0].races_from is not None:
            resting.add(rows[0].request_id)
        spent += expected
        if spent >= min(seconds, _LONG_TURN_SECONDS):
            break
    return tuple(slices)


def with_room(
    prompts: list[Sequence], no_room_for: Collection[str], *, cost: CostModel, now: float
) -> list[Sequence]:
    """Those that memory has room for, but nobody who is less urgent than one that it has none for:
    that one would else be passed for ever."""
    held_back = [one for one in prompts if one.request_id in no_room_for]
    first = min((_urgency(one, cost, now) for one in held_back), default=inf)
    return [one for one in prompts if _urgency(one, cost, now) < first]


def _may_go_on(sequence: Sequence, resting: set[str]) -> bool:
    return sequence.slice_tokens_left > 0 and sequence.request_id not in resting


def _urgency(sequence: Sequence, cost: CostModel, now: float) -> float:
    work = _seconds(sequence, sequence.slice_tokens_left, cost)
    waited = now - sequence.arrived_at
    return urgency(work, waited_seconds=waited, priority=sequence.priority)


def _tokens_to_stop(sequence: Sequence) -> int:
    """How far a slice may go: to the next boundary, or to the end of what is to be computed.

    While it races the disk, a slice is no longer than those before it together: then the row does
    not come to its leap much later than the disk.
    """
    most = sequence.slice_tokens_left
    if sequence.races_from is not None:
        raced = sequence.computed_tokens - sequence.races_from
        most = min(most, max(_LEAST_RACE_TOKENS, raced))
    if (boundary := sequence.next_boundary) is not None:
        most = min(most, boundary - sequence.computed_tokens)
    return most


def _width(sequence: Sequence, *, cost: CostModel, pace: Pace, seconds: float) -> int:
    return cost.most_tokens(
        seconds=seconds,
        context=sequence.computed_tokens,
        at_most=min(pace.most_slice_tokens, _tokens_to_stop(sequence)),
        at_least=0,
    )


def _grid_width(most: int, sequence: Sequence) -> int:
    """Up to the next line first, then from line to line; the rest of a prompt is one slice."""
    start = sequence.computed_tokens
    is_rest = most == sequence.slice_tokens_left
    if is_rest and (most < _LINE_TOKENS or most * (start + most) <= ANY_SHAPE_SCORES):
        return most
    if 0 < (to_line := -start % _LINE_TOKENS) <= most:
        return to_line
    if to_finer := -start % min(_GRID_WIDTHS):
        return min(most, to_finer)
    return next((one for one in _GRID_WIDTHS if one <= most and start % one == 0), most)


def _width_of_whole_images(sequence: Sequence, width: int) -> int:
    start = sequence.computed_tokens
    return whole_images(sequence.images, start, start + width) - start


def _next_images(sequence: Sequence, width: int) -> tuple[Image, ...]:
    start = sequence.computed_tokens
    return images_within(sequence.images, start, start + width)


def _seconds(sequence: Sequence, width: int, cost: CostModel, *, num_rows: int = 1) -> float:
    start = sequence.computed_tokens
    images = sequence.images_left(start, start + width)
    return cost.predict(width, start=start, rows=num_rows, images=images)


def _rectangle(
    pending: list[Sequence], width: int, *, cost: CostModel, seconds: float
) -> list[Sequence]:
    """The first row, and others that start level with it and are about as long."""
    first = pending[0]
    most_rows = max(1, min(EFFICIENT_TOKENS, cost.trusted_tokens) // width)
    if width < first.slice_tokens_left or first.next_boundary is not None:
        return [first]
    if _next_images(first, width):
        return [first]
    rows = [first]
    for other in pending[1:]:
        expected = cost.predict(width, start=first.computed_tokens, rows=len(rows) + 1)
        if len(rows) == most_rows or expected > seconds:
            break
        is_level = other.computed_tokens == first.computed_tokens and not other.next_boundary
        is_similar = width <= other.slice_tokens_left <= _SIMILAR_FACTOR * width
        if is_level and is_similar and not _next_images(other, width):
            rows.append(other)
    return rows


def _cut(rows: list[Sequence], width: int, *, may_draw: bool) -> Slice:
    start = rows[0].computed_tokens
    row_ids = tuple(one.row_id for one in rows if one.row_id is not None)
    images = _next_images(rows[0], width)
    look_share = rows[0].images_left(start, start + width)
    draws = may_draw and not images and all(_may_draw(one, width) for one in rows)
    stop = start + width + draws
    token_ids = tuple(tuple(one.token_ids[start:stop]) for one in rows)
    ends_at_boundary = rows[0].next_boundary == start + width
    for one in rows:
        one.computed_tokens = stop
        one.sliced_tokens += stop - start
        one.looked_share = 0.0 if images else one.looked_share
        one.num_drawn += draws
    return Slice(
        row_ids=row_ids,
        start_tokens=start,
        token_ids=token_ids,
        ends_at_boundary=ends_at_boundary,
        draws=tuple(one.join for one in rows) if draws else (),
        images=images,
        look_share=look_share,
    )


def _may_draw(sequence: Sequence, width: int) -> bool:
    is_rest = width == sequence.slice_tokens_left and sequence.next_boundary is None
    return is_rest and sequence.is_free_to_draw

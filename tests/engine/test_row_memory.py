"""Admission by bytes: what a row adds to a padded batch, and slices that shrink."""

from __future__ import annotations

from engine.core.limits import Limits
from engine.core.sequence import Sequence
from engine.row_memory import Admission, most_slice_tokens
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from engine.wire import Level
from tests.engine.sizing.configs import QWEN3_8B
from tests.fakes import make_work

GIB = 1024**3
ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))


def sequence(name: str, prompt_tokens: int, max_tokens: int = 100) -> Sequence:
    work = make_work(name, prompt=range(prompt_tokens), max_tokens=max_tokens)
    return Sequence(work, delivered_token_ids=(), arrived_at=0.0)


def num_admitted(limits: Limits, lengths: list[int]) -> int:
    admission = Admission(ESTIMATE, limits, rows=(), row_bytes=0)
    return sum(admission.may_admit(sequence(f"r{n}", length)) for n, length in enumerate(lengths))


def test_rows_are_admitted_as_long_as_their_padded_batch_fits() -> None:
    assert num_admitted(Limits(free_bytes=100 * GIB), [4000] * 16) == 16
    assert 4 <= num_admitted(Limits(free_bytes=4 * GIB), [4000] * 16) <= 6


def test_a_long_row_that_does_not_fit_leaves_the_room_to_short_ones() -> None:
    assert num_admitted(Limits(free_bytes=2 * GIB), [30_000, 500, 500, 500]) == 3


def test_a_quiet_engine_takes_one_whatever_is_free() -> None:
    limits = Limits(level=Level.CRITICAL, free_bytes=0, is_quiet=True)
    assert num_admitted(limits, [4000, 4000]) == 1


def test_slices_shrink_to_the_smallest_when_nothing_is_free() -> None:
    rows = [sequence("a", 9000)]
    for free_bytes, expected in ((50 * GIB, 2048), (0, 32)):
        limits = Limits(free_bytes=free_bytes)
        assert most_slice_tokens(ESTIMATE, limits, rows=rows, at_most=2048) == expected

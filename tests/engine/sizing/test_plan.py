"""A model with all its rows against a ceiling: what it takes, and how much of it fits."""

from __future__ import annotations

import pytest

from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.plan import MemoryPlan, plan_memory
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B

GIB = 1024**3
ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))


def plan(rows: int, tokens: int, ceiling_gib: float | None) -> MemoryPlan:
    return plan_memory(
        ESTIMATE,
        weight_bytes=16 * GIB,
        num_rows=rows,
        row_tokens=tokens,
        slice_tokens=2048,
        ceiling_bytes=None if ceiling_gib is None else int(ceiling_gib * GIB),
    )


def test_it_is_the_weights_the_rows_and_what_is_computed_with() -> None:
    found = plan(8, 8192, None)
    assert found.row_bytes == ESTIMATE.batch_bytes([8192] * 8)
    assert found.working_bytes >= ESTIMATE.step_bytes(8, 8192)
    assert found.total_bytes == 16 * GIB + found.row_bytes + found.working_bytes
    assert found.fits and found.most_rows is None


@pytest.mark.parametrize(("rows", "tokens", "ceiling_gib"), [(16, 32_768, 40), (64, 4096, 32)])
def test_what_it_says_would_fit_fits_and_one_more_does_not(
    rows: int, tokens: int, ceiling_gib: float
) -> None:
    found = plan(rows, tokens, ceiling_gib)
    assert not found.fits
    assert found.most_rows and found.most_tokens and found.most_tokens_alone
    assert plan(found.most_rows, tokens, ceiling_gib).fits
    assert not plan(found.most_rows + 1, tokens, ceiling_gib).fits
    assert plan(rows, found.most_tokens, ceiling_gib).fits
    assert not plan(rows, found.most_tokens + 256, ceiling_gib).fits
    assert found.most_tokens <= found.most_tokens_alone <= tokens


def test_one_row_alone_may_be_as_long_as_intake_lets_it_in() -> None:
    found = plan(4, 32_768, 19)
    assert found.most_tokens_alone
    room_bytes = 3 * GIB
    needs = ESTIMATE.needs()
    assert abs(needs.most_tokens(room_bytes, at_most=32_768) - found.most_tokens_alone) <= 256


def test_beside_weights_that_fill_the_ceiling_nothing_fits() -> None:
    found = plan(4, 8192, 16)
    assert (found.fits, found.most_rows, found.most_tokens) == (False, 0, 0)


def test_a_model_without_rows_is_its_weights() -> None:
    assert plan(0, 8192, 20).total_bytes == 16 * GIB

"""What steps teach of a model's memory, and which do not."""

from __future__ import annotations

import random

import pytest

from engine import wire
from engine.core.step import Join, Slice, Step
from engine.peaks import MeasuredRunner, ModelPeaks
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B
from tests.fakes import FakeClock, FakeRunner


class HighPeaks:
    """Every step takes a hundred times what it should."""

    def begin(self) -> int:
        return 0

    def highest_bytes(self) -> int:
        return 100 * 1024**3


def slice_of(row_id: int, start_tokens: int = 0) -> Slice:
    tokens = tuple(range(start_tokens, start_tokens + 64))
    return Slice(row_ids=(row_id,), start_tokens=start_tokens, token_ids=(tokens,))


def test_a_slice_teaches_unless_rows_leave_in_its_step() -> None:
    """The rows that stay are copied then, and that is not the slice's doing."""
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=False))
    model = ModelPeaks(estimate, runs_ahead=False)
    runner = MeasuredRunner(FakeRunner(FakeClock()), model, HighPeaks())
    usual = estimate.correction.slices

    runner.run(Step(slices=(slice_of(1), slice_of(2))))
    runner.run(Step())
    runner.run(Step(leaves=(1,), slices=(slice_of(2, 64),)))
    assert estimate.correction.slices == usual

    runner.run(Step())
    runner.run(Step(slices=(slice_of(2, 128),)))
    assert estimate.correction.slices > usual


def test_a_slice_that_takes_more_for_its_draw_than_for_its_tokens_teaches_nothing() -> None:
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=False))
    model = ModelPeaks(estimate, runs_ahead=False)
    runner = MeasuredRunner(FakeRunner(FakeClock()), model, HighPeaks())
    usual = estimate.correction.slices
    draw = Join(
        row_id=1, prompt_token_ids=(7, 8), output_token_ids=(), sampling=wire.Sampling(seed=1)
    )

    runner.run(
        Step(slices=(Slice(row_ids=(1,), start_tokens=0, token_ids=((7, 8),), draws=(draw,)),))
    )
    assert estimate.correction.slices == usual

    runner.run(Step())
    runner.run(Step(slices=(slice_of(2),)))
    assert estimate.correction.slices > usual


def test_what_slices_take_is_not_learned_where_it_is_known() -> None:
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=4, may_fuse=False))
    model = ModelPeaks(estimate, runs_ahead=False)
    model.know_slices(lambda num_tokens: 20_000_000_000 + 100_000 * num_tokens)
    runner = MeasuredRunner(FakeRunner(FakeClock()), model, HighPeaks())
    known = estimate.correction.slices

    runner.run(Step(slices=(slice_of(1),)))
    assert estimate.correction.slices == known


def test_scores_that_peaks_do_not_show_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks they are in no device's memory."""
    numbers = Numbers(compute_bytes=4, may_fuse=False, block_scores=2**24)
    estimate = Estimate(shape_of(QWEN3_8B), numbers)
    model = ModelPeaks(estimate, runs_ahead=False)
    runner = MeasuredRunner(FakeRunner(FakeClock()), model, HighPeaks())
    measured: list[int] = []
    monkeypatch.setattr(
        model.slices, "learn", lambda parts, measured_bytes: measured.append(measured_bytes)
    )
    runner.run(Step(slices=(slice_of(1),)))
    _, scores, _ = estimate.slice_parts(64, 0)
    assert measured == [HighPeaks().highest_bytes() + int(scores)]


class PlacingRunner(FakeRunner):
    """Rows that join find places, or not."""

    has_moved = False


def test_a_join_teaches_where_the_batch_is_laid_out_anew() -> None:
    """Else only the row is copied: it would seem that nothing ever takes more."""
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=False))
    model = ModelPeaks(estimate, runs_ahead=False)
    placing = PlacingRunner(FakeClock())
    runner = MeasuredRunner(placing, model, HighPeaks())
    usual = estimate.correction.steps
    joins = [
        Join(row_id=one, prompt_token_ids=(7,), output_token_ids=(), sampling=wire.Sampling(seed=1))
        for one in range(3)
    ]

    runner.run(Step(joins=(joins[0],), decodes=(0,)))
    runner.run(Step(joins=(joins[1],), decodes=(0, 1)))
    assert estimate.correction.steps == usual

    placing.has_moved = True
    runner.run(Step(joins=(joins[2],), decodes=(0, 1, 2)))
    assert estimate.correction.steps > usual


def test_rows_are_known_to_grow_by_all_that_was_drafted_rightly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a step in which somebody joins a long row would seem to take too much."""
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=False))
    model = ModelPeaks(estimate, runs_ahead=False)
    told: list[object] = []
    monkeypatch.setattr(model.steps, "learn", lambda parts, measured_bytes: told.append(parts))
    drafting = FakeRunner(FakeClock(), drafter=random.Random(1))
    runner = MeasuredRunner(drafting, model, HighPeaks())
    first, second = (
        Join(row_id=one, prompt_token_ids=(7,), output_token_ids=(), sampling=wire.Sampling(seed=1))
        for one in range(2)
    )
    runner.run(Step(joins=(first,), decodes=(0,)))
    steps = [Step(decodes=(0,), most_draft_tokens=8) for _ in range(5)]
    ended = [one for step in steps for one in runner.run(step)]
    num_right = sum(len(one.drawn) - 1 for one in ended)
    runner.run(Step(joins=(second,), decodes=(0, 1)))
    num_steps = 2 + len(steps)
    assert num_right > 5
    assert told == [estimate.step_parts(2, 1 + num_steps + num_right)]

"""What measured peaks teach, on peaks made of known factors."""

from __future__ import annotations

import random

import pytest

from engine.sizing.estimate import Estimate, Numbers, Parts
from engine.sizing.learning import Factors, PeakLearner
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B

ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=4, may_fuse=False))
LARGEST = ESTIMATE.slice_parts(2048, 8192)
USUAL: Factors = (2.5, 1.1, 1.0)


def total(factors: Factors, parts: Parts) -> float:
    return sum(a * b for a, b in zip(factors, parts, strict=True))


def taught(
    true: Factors, *, tokens: tuple[int, ...], contexts: tuple[int, int], lessons: int = 60
) -> PeakLearner:
    chooser = random.Random(1)
    learner = PeakLearner(usual=USUAL, largest=LARGEST)
    for _ in range(lessons):
        parts = ESTIMATE.slice_parts(chooser.choice(tokens), chooser.randint(*contexts))
        noise = chooser.uniform(0.97, 1.03)
        learner.learn(parts, measured_bytes=int(total(true, parts) * noise))
    return learner


@pytest.mark.parametrize("true", [(1.5, 1.0, 1.0), (4.0, 2.0, 1.0), (2.5, 0.6, 3.0)])
def test_the_factors_are_found_from_slices_of_all_sizes(true: Factors) -> None:
    learner = taught(true, tokens=(64, 512, 2048), contexts=(0, 8000))
    for tokens, context in ((512, 4000), (2048, 8000), (1024, 0)):
        parts = ESTIMATE.slice_parts(tokens, context)
        assert total(learner.factors, parts) / total(true, parts) == pytest.approx(1.05, abs=0.08)


def test_small_slices_that_take_little_do_not_talk_large_ones_down() -> None:
    learner = taught((0.3, 0.3, 0.3), tokens=(16, 32, 64), contexts=(0, 400), lessons=500)
    large = ESTIMATE.slice_parts(2048, 8192)
    assert total(learner.factors, large) >= 0.9 * total(USUAL, large)


def test_where_peaks_may_be_missed_they_lift_and_never_lower() -> None:
    learner = PeakLearner(usual=USUAL, largest=LARGEST, may_fall=False)
    parts = ESTIMATE.slice_parts(2048, 8000)
    for _ in range(50):
        learner.learn(parts, measured_bytes=int(0.4 * total(USUAL, parts)))
    assert total(learner.factors, parts) >= total(USUAL, parts)
    learner.learn(parts, measured_bytes=int(1.5 * total(USUAL, parts)))
    assert total(learner.factors, parts) >= 1.5 * total(USUAL, parts)


def test_a_peak_above_what_is_known_counts_at_once() -> None:
    learner = taught((1.5, 1.0, 1.0), tokens=(512, 2048), contexts=(0, 8000))
    parts = ESTIMATE.slice_parts(2048, 8000)
    measured_bytes = int(1.5 * total(learner.factors, parts))
    learner.learn(parts, measured_bytes=measured_bytes)
    assert total(learner.factors, parts) >= measured_bytes


def test_a_single_peak_that_was_too_high_is_forgotten_in_time() -> None:
    learner = taught((1.5, 1.0, 1.0), tokens=(512, 2048), contexts=(0, 8000))
    parts = ESTIMATE.slice_parts(2048, 8000)
    usual = total(learner.factors, parts)
    learner.learn(parts, measured_bytes=int(2 * usual))
    lifted = total(learner.factors, parts)
    for _ in range(200):
        learner.learn(parts, measured_bytes=int(usual / 1.02))
    assert total(learner.factors, parts) < 1.1 * usual < lifted


def test_nonsense_teaches_nothing() -> None:
    learner = PeakLearner(usual=USUAL, largest=LARGEST)
    learner.learn((0.0, 0.0, 0.0), measured_bytes=10**9)
    learner.learn(LARGEST, measured_bytes=-5)
    assert learner.factors == USUAL
    learner.learn(LARGEST, measured_bytes=10**18)
    assert all(one <= 16 * usual for one, usual in zip(learner.factors, USUAL, strict=True))


def test_what_was_learned_outlives_the_process_with_how_much_was_seen() -> None:
    before = taught((1.5, 1.0, 1.0), tokens=(512, 2048), contexts=(0, 8000))
    after = PeakLearner(usual=USUAL, largest=LARGEST, learned=before.learned)
    assert after.factors == pytest.approx(before.factors, rel=0.05)
    small = ESTIMATE.slice_parts(32, 100)
    for _ in range(20):
        after.learn(small, measured_bytes=int(total((1.5, 1.0, 1.0), small)))
    assert total(after.factors, LARGEST) == pytest.approx(total(before.factors, LARGEST), rel=0.1)

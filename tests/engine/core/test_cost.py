"""The learned cost of prefill slices."""

from __future__ import annotations

import random

import pytest

from engine.core.cost import CostModel


def teach(model: CostModel, *, a: float, b: float, c: float, times: int = 30) -> None:
    chooser = random.Random(1)
    for _ in range(times):
        tokens, start = chooser.randrange(16, 600), chooser.randrange(0, 6000)
        context = start + tokens / 2
        seconds = (a + b * tokens + c * tokens * context) * chooser.uniform(0.95, 1.05)
        model.learn(tokens=tokens, context=context, seconds=seconds)


@pytest.mark.parametrize(
    ("a", "b", "c"), [(0.002, 0.0001, 2e-8), (0.01, 0.002, 1e-7), (0.065, 5e-5, 1e-9)]
)
def test_the_model_learns_a_machine(a: float, b: float, c: float) -> None:
    model = CostModel()
    teach(model, a=a, b=b, c=c)
    for tokens, start in [(64, 68), (256, 1872), (512, 4744)]:
        expected = a + b * tokens + c * tokens * (start + tokens / 2)
        assert model.predict(tokens, start=start) == pytest.approx(expected, rel=0.15)


def test_the_largest_slice_fits_into_the_time_given() -> None:
    model = CostModel()
    teach(model, a=0.01, b=0.001, c=1e-7)
    tokens = model.most_tokens(seconds=0.25, context=3000, at_most=2048, at_least=16)
    assert model.predict(tokens, start=3000) == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.2])
def test_how_far_a_machine_strays_is_known(noise: float) -> None:
    model, chooser = CostModel(), random.Random(2)
    for _ in range(100):
        seconds = (0.01 + 0.001 * 200) * chooser.choice([1 - noise, 1 + noise])
        model.learn(tokens=200, context=100, seconds=seconds)
    assert model.spread == pytest.approx(noise, rel=0.3, abs=0.02)


def test_a_slice_keeps_its_limits() -> None:
    model = CostModel()
    teach(model, a=0.002, b=0.0001, c=2e-8)
    assert model.most_tokens(seconds=0.0, context=0, at_most=512, at_least=16) == 16
    assert model.most_tokens(seconds=100.0, context=0, at_most=512, at_least=16) == 512


def test_one_compile_does_not_spoil_what_was_learned() -> None:
    model = CostModel()
    teach(model, a=0.01, b=0.001, c=1e-7)
    before = model.predict(256)
    model.learn(tokens=256, context=128, seconds=20.0)
    assert model.predict(256) < 2 * before


def test_a_machine_that_slows_down_is_noticed() -> None:
    model = CostModel()
    teach(model, a=0.005, b=0.0005, c=1e-8)
    teach(model, a=0.005, b=0.0015, c=1e-8, times=100)
    assert model.predict(500) == pytest.approx(0.755, rel=0.15)


def test_turns_of_several_short_slices_teach_what_a_long_one_costs() -> None:
    model, chooser = CostModel(), random.Random(2)
    for _ in range(100):
        turn = [(chooser.choice([1, 2, 7, 59]), 30.0) for _ in range(chooser.randrange(1, 5))]
        seconds = 0.001 + 0.0005 * sum(tokens for tokens, _ in turn)
        model.learn_turn(turn, seconds=seconds)
    assert model.predict(200) == pytest.approx(0.1, rel=0.15)


def test_what_was_never_tried_is_not_believed_to_be_free() -> None:
    """After prompts of one token only, what a token costs cannot be known."""
    model = CostModel()
    for _ in range(50):
        model.learn(tokens=1, context=0, seconds=0.0015)
    assert model.predict(1) == pytest.approx(0.0015, rel=0.05)
    assert model.predict(60) > 0.03


def test_slices_grow_step_by_step_until_their_like_was_measured() -> None:
    """On a machine far slower than the prior a first long slice would take minutes."""
    model, lengths = CostModel(), []
    for _ in range(5):
        tokens = model.most_tokens(seconds=1000.0, context=0, at_most=2048, at_least=16)
        model.learn(tokens=tokens, context=tokens / 2, seconds=0.0001 * tokens)
        lengths.append(tokens)
    assert lengths == [64, 256, 1024, 2048, 2048]

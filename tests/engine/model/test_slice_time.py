"""The time of a slice teaches the cost model, also where submitting it blocks."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.core.step import Join, Slice, Step
from engine.model import reading
from engine.model.runner import Runner
from tests.engine.model.rig import loaded
from tests.fakes import FakeClock

NUM_SLICES, SLICE_TOKENS = 6, 512
SLICE_SECONDS, DECODE_SECONDS = 3.0, 1.0


class BlockingModel:
    """The real one, that computes while it is called; a clock goes on by what that takes."""

    def __init__(self, model: Any, clock: FakeClock) -> None:
        self._model = model
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, token_ids: mx.array, **options: Any) -> mx.array:
        self._clock.now += SLICE_SECONDS if token_ids.shape[1] > 1 else DECODE_SECONDS
        logits: mx.array = self._model(token_ids, **options)
        return logits


def make_slice(number: int) -> Slice:
    tokens = tuple(range(10, 10 + SLICE_TOKENS))
    return Slice(row_ids=(1,), start_tokens=number * SLICE_TOKENS, token_ids=(tokens,))


def test_a_slice_between_decode_steps_is_told_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "make_cpu_body", lambda _: None)  # it would not call the model
    clock = FakeClock()
    model = BlockingModel(loaded("tiny-qwen3").model, clock)
    runner = Runner(model, token_bytes=bytes, runs_ahead=False, clock=clock)
    sampling = wire.Sampling(seed=1, temperature=0.0)
    join = Join(row_id=2, prompt_token_ids=(5,), output_token_ids=(), sampling=sampling)
    steps = [Step(joins=(join,), decodes=(2,))]
    for number in range(NUM_SLICES):
        steps += [Step(slices=(make_slice(number),)), Step(decodes=(2,)), Step(decodes=(2,))]
    told = [outcome for step in [*steps, Step()] for outcome in runner.run(step)]
    assert [outcome.step for outcome in told] == steps
    assert {outcome.seconds for outcome in told if outcome.step.slices} == {SLICE_SECONDS}
    of_decodes = [outcome.seconds for outcome in told if outcome.step.decodes]
    assert sum(of_decodes) == DECODE_SECONDS * len(of_decodes)

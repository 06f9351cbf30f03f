"""The time of a slice teaches the cost model, also where submitting it blocks."""

from __future__ import annotations

from engine import wire
from engine.core.step import Join, Outcome, Slice, Step
from engine.model.runner import Runner
from tests.engine.model.rig import loaded

NUM_SLICES, SLICE_TOKENS = 6, 512


def make_slice(number: int) -> Slice:
    tokens = tuple(range(10, 10 + SLICE_TOKENS))
    return Slice(row_ids=(1,), start_tokens=number * SLICE_TOKENS, token_ids=(tokens,))


def test_a_slice_between_decode_steps_is_told_its_own_time() -> None:
    runner = Runner(loaded("tiny-qwen3").model, decode_token=str)
    sampling = wire.Sampling(seed=1, temperature=0.0)
    join = Join(row_id=2, prompt_token_ids=(5,), output_token_ids=(), sampling=sampling)
    steps = [Step(joins=(join,), decodes=(2,))]
    for number in range(NUM_SLICES):
        steps += [Step(slices=(make_slice(number),)), Step(decodes=(2,))]
    outcomes: list[Outcome | None] = [runner.run(step) for step in [*steps, Step()]]
    told = [outcome for outcome in outcomes if outcome is not None]
    assert [outcome.step for outcome in told] == steps
    of_slices = sum(outcome.seconds for outcome in told if outcome.step.slices)
    of_decodes = sum(outcome.seconds for outcome in told if outcome.step.decodes)
    assert of_slices > 3 * of_decodes

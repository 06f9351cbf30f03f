"""A device computes beside the host, or while it is fed: the answers are the same."""

from __future__ import annotations

import dataclasses

import pytest

from engine import wire
from engine.core.step import Join, Slice, Step
from engine.model.runner import Runner
from tests.engine.model.rig import Run, loaded, make_handle, reference_tokens
from tests.fakes import make_work

NAME = "tiny-qwen3"
SLICE = Step(slices=(Slice(row_ids=(1,), start_tokens=0, token_ids=((5, 6, 7),)),))
JOIN = Join(
    row_id=1,
    prompt_token_ids=(5, 6, 7, 8),
    output_token_ids=(),
    sampling=wire.Sampling(seed=1, temperature=0.0),
)
FIRST, SECOND, THIRD = Step(joins=(JOIN,), decodes=(1,)), Step(decodes=(1,)), Step(decodes=(1,))
OTHER = Step(slices=(Slice(row_ids=(2,), start_tokens=0, token_ids=((9, 8, 7),)),))


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_answers_are_those_of_single_runs(runs_ahead: bool) -> None:
    works = [
        make_work(f"r{n}", prompt=range(10 + n, 60 + 30 * n), max_tokens=6 + n) for n in range(4)
    ]
    run = Run(make_handle(NAME, runs_ahead=runs_ahead))
    for work in works:
        run.add(work)
        run.turn()
    run.finish()
    for work in works:
        assert run.tokens(work.request_id) == reference_tokens(NAME, work), work.request_id


@pytest.mark.parametrize(
    ("runs_ahead", "told"),
    [
        (False, [[SLICE], [FIRST], [], [SECOND, OTHER], [], [THIRD]]),
        (True, [[], [SLICE], [FIRST], [SECOND], [OTHER], [THIRD]]),
    ],
)
def test_where_nothing_runs_ahead_slices_and_first_tokens_are_told_at_once(
    runs_ahead: bool, told: list[list[Step]]
) -> None:
    runner = Runner(loaded(NAME).model, token_bytes=bytes, runs_ahead=runs_ahead)
    steps = (SLICE, FIRST, SECOND, OTHER, THIRD, Step())
    assert [[one.step for one in runner.run(step)] for step in steps] == told


def test_nobody_waits_for_a_join_whose_first_token_is_told() -> None:
    begun = dataclasses.replace(JOIN, prompt_token_ids=(5, 6, 7), output_token_ids=(8,))
    runner = Runner(loaded(NAME).model, token_bytes=bytes, runs_ahead=False)
    steps = (SLICE, Step(joins=(begun,), decodes=(1,)), SECOND)
    assert [[one.step for one in runner.run(step)] for step in steps] == [[SLICE], [], [steps[1]]]

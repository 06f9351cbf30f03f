"""Greedy answers are those of single runs, whoever joins and leaves, on every kind of cache."""

from __future__ import annotations

import random

import pytest
from mlx_lm.generate import BatchGenerator

from engine import wire
from tests.engine.model.rig import (
    Run,
    as_mlx_lm_has_it,
    loaded,
    make_handle,
    random_works,
    reference_tokens,
)
from tests.fakes import make_work

ATTENTION, WINDOW, HYBRID, STATE, CHUNKED, SINKS, OWN_CACHES = (
    "tiny-qwen3",
    "tiny-gemma3",
    "tiny-qwen3-next",
    "tiny-mamba",
    "tiny-llama4",
    "tiny-gpt-oss",
    "tiny-deepseek-v4.1",
)
BLOCKS = "minimax_m3_vl"


def run_with_random_joins(run: Run, works: list[wire.Work], seed: int) -> None:
    chooser, pending = random.Random(seed), list(works)
    while pending:
        run.add(pending.pop(0))
        for _ in range(chooser.choice([0, 0, 1, 3, 6])):
            run.turn()
    run.finish()


@pytest.mark.parametrize("name", [ATTENTION, WINDOW, HYBRID, STATE, CHUNKED, SINKS, OWN_CACHES])
def test_answers_are_those_of_single_runs_at_random_joins_and_leaves(name: str) -> None:
    works = random_works(3, 9)
    run = Run(make_handle(name))
    run_with_random_joins(run, works, seed=3)
    for work in works:
        assert run.tokens(work.request_id) == reference_tokens(name, work), work.request_id


@pytest.mark.parametrize("name", [ATTENTION, WINDOW, SINKS])
def test_a_window_may_be_passed_while_others_leave(name: str) -> None:
    works = [make_work("long", prompt=range(10, 60), max_tokens=40)]
    works += [make_work(f"s{n}", prompt=range(20, 25 + n), max_tokens=3 + 9 * n) for n in range(3)]
    run = Run(make_handle(name))
    run_with_random_joins(run, works, seed=1)
    for work in works:
        assert run.tokens(work.request_id) == reference_tokens(name, work), work.request_id


def test_prompts_cut_into_many_slices_give_the_same_answer() -> None:
    works = [make_work(f"r{n}", prompt=range(10 + n, 310 + n), max_tokens=4) for n in range(3)]
    run = Run(make_handle(ATTENTION, stall_ms=1, decode_share=0.5))
    run.add(make_work("victim", prompt=[5, 6, 7], max_tokens=200))
    for work in works:
        run.add(work)
    run.finish()
    for work in works:
        assert run.tokens(work.request_id) == reference_tokens(ATTENTION, work)


def test_batch_generator_agrees() -> None:
    works = random_works(5, 6)
    run = Run(make_handle(ATTENTION))
    run_with_random_joins(run, works, seed=5)
    answers = batch_generator_tokens(works)
    assert [run.tokens(work.request_id) for work in works] == answers


def batch_generator_tokens(works: list[wire.Work]) -> list[list[int]]:
    with as_mlx_lm_has_it(ATTENTION) as model:
        generator = BatchGenerator(model)
        uids = generator.insert(
            [list(work.prompt_token_ids) for work in works], [work.max_tokens for work in works]
        )
        answers: dict[int, list[int]] = {uid: [] for uid in uids}
        while responses := generator.next_generated():
            for response in responses:
                answers[response.uid].append(response.token)
        generator.close()
    return [answers[uid] for uid in uids]


def test_a_cancelled_row_leaves_the_others_alone() -> None:
    works = random_works(7, 5)
    run = Run(make_handle(ATTENTION))
    for work in works:
        run.add(work)
    for _ in range(4):
        run.turn()
    run.cancel("r1")
    run.finish()
    end = run.ends["r1"]
    assert isinstance(end, wire.Finished) and end.reason is wire.FinishReason.CANCELLED
    for work in works:
        expected = reference_tokens(ATTENTION, work)
        got = run.tokens(work.request_id)
        assert got == expected if work.request_id != "r1" else got == expected[: len(got)]


def test_families_without_a_batch_form_are_found_out() -> None:
    assert not any(loaded(name).is_batchable for name in (CHUNKED, OWN_CACHES, BLOCKS))
    assert all(loaded(name).is_batchable for name in (ATTENTION, WINDOW, HYBRID, STATE, SINKS))

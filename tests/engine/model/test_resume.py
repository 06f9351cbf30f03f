"""A seed gives one answer: alone, in any batch, and continued by another engine after any token."""

from __future__ import annotations

import pytest

from engine import wire
from tests.engine.model.rig import Run, make_handle, random_works, run_alone
from tests.fakes import make_work

NUM_TOKENS = 9
SAMPLINGS = {
    "plain": wire.Sampling(seed=11, temperature=0.8),
    "filtered": wire.Sampling(seed=12, temperature=1.3, top_k=40, top_p=0.9, min_p=0.01),
    "penalised": wire.Sampling(
        seed=13,
        temperature=0.9,
        presence_penalty=0.7,
        frequency_penalty=0.5,
        repetition_penalty=1.2,
        logit_bias=((20, 3.0), (21, -100.0)),
    ),
    "greedy": wire.Sampling(seed=14, temperature=0.0, frequency_penalty=1.0),
}


def make_seeded(sampling: wire.Sampling) -> wire.Work:
    return make_work("seeded", prompt=range(30, 52), max_tokens=NUM_TOKENS, sampling=sampling)


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-qwen3-next"])
def test_a_seeded_answer_is_the_same_alone_and_in_any_batch(name: str) -> None:
    works = [
        make_work(kind, prompt=range(30, 52), max_tokens=NUM_TOKENS, sampling=sampling)
        for kind, sampling in SAMPLINGS.items()
    ]
    for others in (0, 3):
        run = Run(make_handle(name))
        for work in random_works(4, others, sampling=wire.Sampling(seed=99, temperature=1.8)):
            run.add(work)
        run.turn()
        for work in works:
            run.add(work)
            run.turn()
        run.finish()
        for work in works:
            assert run.tokens(work.request_id) == run_alone(name, work), work.request_id


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize("cut", range(1, NUM_TOKENS))
def test_a_resumed_answer_is_the_undisturbed_one(kind: str, cut: int) -> None:
    work = make_seeded(SAMPLINGS[kind])
    whole = alone(kind)
    run = Run(make_handle("tiny-qwen3"))
    run.add(make_work("other", prompt=range(60, 65), max_tokens=30))
    run.turn()
    run.add(work, delivered=whole[:cut])
    run.finish()
    assert run.tokens("seeded") == whole[cut:]
    resumed = [one for one in run.events["seeded"] if isinstance(one, wire.Resumed)]
    assert [one.at_tokens for one in resumed] == [cut]
    assert not any(isinstance(one, wire.Started) for one in run.events["seeded"])


_alone: dict[str, list[int]] = {}


def alone(kind: str) -> list[int]:
    if kind not in _alone:
        _alone[kind] = run_alone("tiny-qwen3", make_seeded(SAMPLINGS[kind]))
    return _alone[kind]


def test_different_seeds_give_different_answers() -> None:
    answers = [
        run_alone("tiny-qwen3", make_seeded(wire.Sampling(seed=seed, temperature=1.0)))
        for seed in (1, 2, 2**63 + 5)
    ]
    assert len({tuple(one) for one in answers}) == 3


def test_usage_counts_what_earlier_engines_delivered() -> None:
    run = Run(make_handle("tiny-qwen3"))
    run.add(make_seeded(SAMPLINGS["plain"]), delivered=alone("plain")[:4])
    run.finish()
    end = run.ends["seeded"]
    assert isinstance(end, wire.Finished)
    assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (22, NUM_TOKENS)
    assert end.timings.ttft_seconds is None

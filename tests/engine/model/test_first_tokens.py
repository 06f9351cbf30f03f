"""The first token of an answer comes from the call that reads the end of its prompt."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.step import StepRunner
from engine.model.runner import Runner
from tests.engine.model.rig import Run, make_handle
from tests.engine.test_prefix_reuse import KINDS
from tests.fakes import make_work

SAMPLINGS = {
    "greedy": wire.Sampling(seed=1, temperature=0.0),
    "drawn": wire.Sampling(seed=7, temperature=0.8, top_k=20, top_p=0.9),
    "penalised": wire.Sampling(seed=3, temperature=0.0, repetition_penalty=1.6),
    "biased": wire.Sampling(seed=3, temperature=0.0, logit_bias=((77, 100.0),)),
    "logged": wire.Sampling(seed=5, temperature=0.6, top_logprobs=3),
}


def work(name: str, sampling: wire.Sampling, *, prompt_tokens: int = 5) -> wire.Work:
    prompt = [37 * place % 3000 + 10 for place in range(prompt_tokens)]
    return make_work(name, prompt=prompt, max_tokens=6, sampling=sampling)


def joining_first(runner: StepRunner) -> StepRunner:
    assert isinstance(runner, Runner)
    runner._reader.logits = None
    return runner


def deltas(run: Run, request_id: str) -> list[wire.Delta]:
    return [one for one in run.events[request_id] if isinstance(one, wire.Delta)]


@pytest.mark.parametrize("model", KINDS)
def test_it_is_told_after_one_call(model: str) -> None:
    run = Run(make_handle(model, runs_ahead=False))
    run.add(work("a", SAMPLINGS["greedy"], prompt_tokens=4))
    run.turn()
    assert len(run.tokens("a")) == 1


@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize("runs_ahead", [False, True])
def test_it_is_the_token_that_the_batch_call_draws(runs_ahead: bool, model: str) -> None:
    """With its logprobs, whatever the request asks for, beside others that do."""
    runs = [
        Run(make_handle(model, runs_ahead=runs_ahead)),
        Run(make_handle(model, runs_ahead=runs_ahead, wrap=joining_first)),
    ]
    for run in runs:
        for name, sampling in SAMPLINGS.items():
            run.add(work(name, sampling))
        run.finish()
    for name in SAMPLINGS:
        ours, theirs = (deltas(run, name) for run in runs)
        assert [one.token_ids for one in ours] == [one.token_ids for one in theirs], name
        for mine, other in zip(ours, theirs, strict=True):
            logged = zip(mine.logprobs or (), other.logprobs or (), strict=True)
            assert all(
                a.token.logprob == pytest.approx(b.token.logprob, abs=1e-3) for a, b in logged
            )
    assert deltas(runs[0], "logged")[0].logprobs


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_an_answer_of_one_token_leaves_nothing_behind(max_tokens: int) -> None:
    handle = make_handle("tiny-qwen3")
    run = Run(handle)
    for number in range(3):
        run.add(make_work(f"r{number}", prompt=range(10, 30), max_tokens=max_tokens))
    run.finish()
    assert [len(run.tokens(f"r{number}")) for number in range(3)] == [max_tokens] * 3
    run.turn()
    assert handle.row_bytes == 0

"""Drafted tokens change how fast an answer comes, never the answer."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache

from engine import wire
from engine.core.step import DraftMemory, Outcome, PassingRunner, Step, StepRunner
from engine.model.batch import RowBatch
from engine.model.reading import Reader
from engine.model.sampling import SampledRow
from engine.model.verifying import Drafter, TextDrafter
from tests.engine.model.rig import (
    Run,
    decoding,
    drawn,
    loaded,
    make_handle,
    num_operations,
    prefilled,
)
from tests.fakes import make_work

PLAIN, HYBRID, STATE, WINDOW = "tiny-qwen3", "tiny-qwen3-next", "tiny-mamba", "tiny-gemma3"
PROMPT = range(20, 60)
SAMPLINGS = {
    "greedy": wire.Sampling(seed=1, temperature=0.0),
    "random": wire.Sampling(seed=3),
    "filtered": wire.Sampling(seed=5, temperature=0.7, top_k=20, top_p=0.9),
    "floored": wire.Sampling(seed=7, temperature=0.8, min_p=0.02),
    "penalised": wire.Sampling(
        seed=9, presence_penalty=0.5, frequency_penalty=0.7, repetition_penalty=1.2
    ),
    "logged": wire.Sampling(seed=1, temperature=0.0, top_logprobs=3),
}


class Guesser:
    memory = DraftMemory()

    def forget(self) -> None: ...


class Oracle(Guesser):
    """Drafts what it was told will come; of each draft's tokens so many are wrong at the end."""

    def __init__(self, answer: list[int], num_prompt_tokens: int, *, num_wrong: int = 0):
        self._answer, self._num_prompt_tokens = answer, num_prompt_tokens
        self._num_wrong = num_wrong

    def draft(
        self, row_id: int, token_ids: list[int], row: Callable[[], SampledRow], *, at_most: int
    ) -> tuple[int, ...]:
        start = len(token_ids) - self._num_prompt_tokens
        right = self._answer[start : start + at_most]
        kept = max(0, len(right) - self._num_wrong)
        return (*right[:kept], *(token_id ^ 1 for token_id in right[kept:]))


class Chance(Guesser):
    """Drafts anything."""

    def __init__(self, seed: int):
        self._chooser = random.Random(seed)

    def draft(
        self, row_id: int, token_ids: list[int], row: Callable[[], SampledRow], *, at_most: int
    ) -> tuple[int, ...]:
        length = self._chooser.randrange(at_most + 1)
        return tuple(self._chooser.choice([*token_ids, 17]) for _ in range(length))


class CountingRunner(PassingRunner):
    """Of the steps that verified: tokens drafted and drawn. All steps take a second."""

    def __init__(self, runner: StepRunner):
        super().__init__(runner)
        self.num_steps = self.num_drafted = self.num_drawn = 0

    def run(self, step: Step) -> tuple[Outcome, ...]:
        outcomes = tuple(replace(one, seconds=1.0) for one in super().run(step))
        for one in outcomes:
            self.num_steps += bool(one.step.decodes)
            if one.num_drafted:
                self.num_drafted += one.num_drafted
                self.num_drawn += len(one.drawn)
        return outcomes


Answer = tuple[list[int], list[float]]


def answer_of(run: Run, work: wire.Work) -> Answer:
    """Its tokens, and the logprobs of all that was likely."""
    deltas = [one for one in run.events[work.request_id] if isinstance(one, wire.Delta)]
    positions = (one for delta in deltas for one in delta.logprobs or ())
    return run.tokens(work.request_id), [top.logprob for one in positions for top in one.top]


def assert_same(found: Answer, expected: Answer) -> None:
    assert found[0] == expected[0]
    assert found[1] == pytest.approx(expected[1], abs=1e-2)


@functools.cache
def alone(name: str, kind: str) -> Answer:
    """What the model says without drafts."""
    work = make_work("r", prompt=PROMPT, max_tokens=70, sampling=SAMPLINGS[kind])
    return answer_alone(name, work)


def answer_alone(name: str, work: wire.Work) -> Answer:
    run = Run(make_handle(name))
    run.add(work)
    run.finish()
    return answer_of(run, work)


def drafting_run(
    name: str, drafter: Drafter, *, runs_ahead: bool, draft_tokens: int = 8
) -> tuple[Run, CountingRunner]:
    counting: list[CountingRunner] = []

    def counted(runner: StepRunner) -> StepRunner:
        counting.append(CountingRunner(runner))
        return counting[0]

    handle = make_handle(
        name, drafter=drafter, draft_tokens=draft_tokens, runs_ahead=runs_ahead, wrap=counted
    )
    return Run(handle), counting[0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((PLAIN, kind) for kind in SAMPLINGS), (HYBRID, "random"), (STATE, "penalised")],
)
@pytest.mark.parametrize(
    ("num_wrong", "runs_ahead"), [(0, False), (0, True), (1, True), (3, False), (99, True)]
)
def test_an_answer_is_the_same_however_much_of_the_drafts_is_right(
    name: str, kind: str, num_wrong: int, runs_ahead: bool
) -> None:
    work = make_work("r", prompt=PROMPT, max_tokens=70, sampling=SAMPLINGS[kind])
    expected = alone(name, kind)
    oracle = Oracle(expected[0], len(PROMPT), num_wrong=num_wrong)
    run, counting = drafting_run(name, oracle, runs_ahead=runs_ahead)
    run.add(work)
    run.finish()
    assert_same(answer_of(run, work), expected)
    assert counting.num_drafted > 0
    if num_wrong == 0:
        assert counting.num_drawn > counting.num_drafted > 40
        assert counting.num_steps < 20


@pytest.mark.parametrize("name", [HYBRID, STATE])
def test_what_wrong_drafts_make_read_again_is_part_of_their_step(name: str) -> None:
    """The next step would seem to take longer otherwise, and drafts to pay."""
    batch, reader = RowBatch(decoding(name)), Reader(loaded(name).model)
    batch.join([prefilled(name, 1, 30)])
    drawn(batch)
    token_ids = (9, 10, 11)
    mx.eval(batch.verify(token_ids, reader.all_logits))
    batch.settle(token_ids, 1, read=reader.read)
    row, num_tokens = batch.extract(1)
    states = [one for layer in row if isinstance(layer, ArraysCache) for one in layer.cache]
    assert num_tokens == 32 and states
    assert num_operations([one for one in states if one is not None]) == 0


@pytest.mark.parametrize("name", [PLAIN, HYBRID, STATE, WINDOW])
@pytest.mark.parametrize("seed", range(2))
def test_rows_come_and_go_around_it(name: str, seed: int) -> None:
    chooser = random.Random(seed)
    works = [
        make_work(
            f"r{number}",
            prompt=[chooser.randrange(10, 14) for _ in range(chooser.choice([1, 5, 30]))],
            max_tokens=chooser.randrange(1, 40),
            sampling=chooser.choice([*SAMPLINGS.values()]),
        )
        for number in range(8)
    ]
    drafter = chooser.choice([TextDrafter(), Chance(seed)])
    run, counting = drafting_run(name, drafter, runs_ahead=chooser.random() < 0.5)
    pending = list(works)
    while pending:
        run.add(pending.pop(0))
        for _ in range(chooser.choice([0, 2, 12, 40])):
            run.turn()
    run.finish()
    for work in works:
        assert_same(answer_of(run, work), answer_alone(name, work))
    if name == WINDOW:  # whose tokens cannot be taken back
        assert counting.num_drafted == 0
    elif isinstance(drafter, Chance):
        assert counting.num_drafted > 0

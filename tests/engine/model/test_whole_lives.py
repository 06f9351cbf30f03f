"""Everything at once: rows join and leave, lose their place to memory, are cancelled, fail, begin
with prefixes that others left, and are drawn in every way. Each answer is what it is alone."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from engine import wire
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.blocks import root_key
from engine.core.step import Outcome, PassingRunner, Step, StepRunner
from engine.model import caches as row_caches
from engine.model import snapshots
from engine.model.runner import Runner
from engine.reuse import PrefixReuse
from engine.shelf import ModelVoice
from tests.engine.model.rig import Run, loaded, make_handle, run_alone
from tests.fakes import make_work

NUM_REQUESTS = 14


class Faulty(PassingRunner):
    """One step of a hundred raises, before or after it is run."""

    def __init__(self, runner: StepRunner, chooser: random.Random) -> None:
        super().__init__(runner)
        self._chooser = chooser

    def run(self, step: Step) -> tuple[Outcome, ...]:
        fate = self._chooser.random()
        if fate < 0.005:
            raise RuntimeError("before")
        outcomes = self._runner.run(step)
        if fate > 0.995:
            raise RuntimeError("after")
        return outcomes


def run_with_cache(name: str, chooser: random.Random) -> Run:
    model = loaded(name)
    runner = Runner(model.model, token_bytes=ModelVoice(model.tokenizer).token_bytes)
    needs = snapshots.needs_of(row_caches.new_caches(model.model))
    assert needs is not None
    tier = MemoryTier(budget_bytes=chooser.choice([1 << 20, 8 << 20, 1 << 30]))
    cache = PrefixCache(tier, None, contents=snapshots.CONTENTS)
    spec = wire.ModelSpec(name=name, path="")
    reuse = PrefixReuse(cache, runner, spec=spec, root=root_key({"model": name}), needs=needs)
    return Run(make_handle(name, wrap=lambda _: Faulty(runner, chooser), reuse=reuse))


def any_sampling(chooser: random.Random) -> wire.Sampling:
    choices: dict[str, list[Any]] = {
        "temperature": [0.0, 0.0, 0.5, 1.0, 1.5],
        "top_p": [1.0, 1.0, 0.5],
        "top_k": [0, 0, 1, 40],
        "min_p": [0.0, 0.0, 0.05],
        "presence_penalty": [0.0, 0.0, 0.7],
        "repetition_penalty": [1.0, 1.0, 1.3],
        "logit_bias": [(), (), ((77, 5.0),)],
        "top_logprobs": [None, None, 3],
    }
    chosen = {field: chooser.choice(values) for field, values in choices.items()}
    return wire.Sampling(seed=chooser.randrange(1 << 30), **chosen)


def any_works(chooser: random.Random) -> list[wire.Work]:
    stem = [chooser.randrange(10, 4000) for _ in range(600)]
    return [
        make_work(
            f"r{number}",
            prompt=[
                *stem[: chooser.choice([0, 40, 300, 600])],
                *(chooser.randrange(10, 4000) for _ in range(chooser.choice([1, 2, 20, 100]))),
            ],
            max_tokens=chooser.choice([1, 2, 5, 12, 40]),
            sampling=any_sampling(chooser),
            tenant=f"user:{chooser.randrange(3)}",
        )
        for number in range(NUM_REQUESTS)
    ]


def live_through(run: Run, works: list[wire.Work], chooser: random.Random) -> None:
    pending = list(works)
    while pending or not run.handle.is_idle:
        if pending and (run.handle.is_idle or chooser.random() < 0.3):
            run.add(pending.pop(0))
        if (row := run.handle.newest_row) is not None and chooser.random() < 0.03:
            run.take(run.handle.preempt(row))
        if chooser.random() < 0.01:
            run.cancel(chooser.choice(works).request_id)
        run.turn()


def requests_that_differ(name: str, run: Run, chooser: random.Random) -> list[str]:
    """Whose answers, as far as they went, are not what they are alone."""
    works = any_works(chooser)
    live_through(run, works, chooser)
    return [work.request_id for work in works if not is_as_alone(name, run, work)]


def is_as_alone(name: str, run: Run, work: wire.Work) -> bool:
    got, expected = run.tokens(work.request_id), run_alone(name, work)
    end = run.ends[work.request_id]
    is_whole = isinstance(end, wire.Finished) and end.reason is not wire.FinishReason.CANCELLED
    return got == (expected if is_whole else expected[: len(got)])


KINDS = ("tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4")
# Whose layers keep other things: several, those of others, several times, latents beside states;
# and one that attends to blocks of a row
FAMILIES = ["deepseek_v32", "baichuan_m1", "gemma4_text", "nanbeige", "kimi_linear", "rwkv7"]
FAMILIES += ["minimax_m3_vl"]


@pytest.mark.parametrize(
    ("name", "seed"), [*itertools.product(KINDS, (1, 2)), *((name, 1) for name in FAMILIES)]
)
def test_every_answer_is_what_it_is_alone(name: str, seed: int) -> None:
    chooser = random.Random(seed)
    assert requests_that_differ(name, run_with_cache(name, chooser), chooser) == []

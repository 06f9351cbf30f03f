"""One person's many agents on few rows, and memory for a third of their conversations: what is
found of their prompts, and how long each waits for its answer.

Rival: mlx_lm.server with as many rows and as much memory for prompts. Whoever serves in the order
of arrival serves each agent when the others have washed its conversation out of memory. Our disk
tier is off: it would bring that back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence

from tests.bench.answers import Answer
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio, percentile

NUM_ROWS, NUM_AGENTS, NUM_TURNS = 2, 12, 5
PREAMBLE_TOKENS, TASK_TOKENS, RESULT_TOKENS, ANSWER_TOKENS = 400, (800, 1_800), 200, 30
PAUSE_SECONDS = 0.5  # in the mean: what a tool takes
MEMORY_GB = {"small": 0.075}  # for about 6,500 tokens of the 22,000 that are in hand
FOUND_BAR = 0.35
OVER_RIVAL_BAR = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`seconds`: of each answer, from its request to its end."""

    found: float
    seconds: tuple[float, ...]
    all_seconds: float


def run(options: Options) -> Report:
    models = options.models or ("small",)
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        memory = str(int(MEMORY_GB[model] * 2**30))
        with contestants(
            model,
            fields={"max_rows": NUM_ROWS},
            server_options=(
                *("--decode-concurrency", str(NUM_ROWS), "--prompt-concurrency", str(NUM_ROWS)),
                *("--prompt-cache-size", str(NUM_AGENTS), "--prompt-cache-bytes", memory),
            ),
            HEARTH_CACHE_MEMORY_GB=str(MEMORY_GB[model]),
            HEARTH_CACHE_DISK_GB="0",
        ) as sides:
            samples = interleave(
                {target.name: _measuring(sides, target) for target in sides.targets},
                rounds=options.rounds or 3,
                deadline=budget.next_deadline(),
            )
        report.results += _results(model, samples[HEARTH], samples[MLX_LM_SERVER])
    return report


def _measuring(sides: Contestants, target: Target) -> Callable[[int], Sample]:
    def measure(number: int) -> Sample:
        with quiet_collector():
            agents = (_agent(sides, target, f"{number} {one}") for one in range(NUM_AGENTS))
            return asyncio.run(_measure(agents))

    return measure


async def _measure(agents: Iterator[Coroutine[None, None, list[Answer]]]) -> Sample:
    answers = [*itertools.chain.from_iterable(await asyncio.gather(*agents))]
    return Sample(
        found=sum(one.cached_tokens for one in answers) / sum(one.prompt_tokens for one in answers),
        seconds=tuple(one.ended_at - one.started_at for one in answers),
        all_seconds=max(one.ended_at for one in answers) - min(one.started_at for one in answers),
    )


async def _agent(sides: Contestants, target: Target, label: str) -> list[Answer]:
    chooser = random.Random(label)
    messages = [
        {"role": "system", "content": _text(sides, "preamble", PREAMBLE_TOKENS)},
        {"role": "user", "content": _text(sides, label, chooser.randint(*TASK_TOKENS))},
    ]
    answers: list[Answer] = []
    for turn in range(NUM_TURNS):
        await asyncio.sleep(chooser.expovariate(1 / PAUSE_SECONDS))
        question = Question(prompt="", max_tokens=ANSWER_TOKENS, more={"messages": messages})
        answers.append(await ask_among_others(target, question))
        result = _text(sides, f"{label} result {turn}", RESULT_TOKENS)
        messages += [
            {"role": "assistant", "content": answers[-1].text},
            {"role": "user", "content": result},
        ]
    return answers


def _text(sides: Contestants, label: str, num_tokens: int) -> str:
    return sides.prompts.prompt(f"fleet {label}", tokens=num_tokens)


def _results(model: str, ours: Sequence[Sample], rivals: Sequence[Sample]) -> list[Result]:
    def of_answers(share: float) -> float:
        pairs = zip(ours, rivals, strict=True)
        return median(
            [percentile(a.seconds, share) / percentile(b.seconds, share) for a, b in pairs]
        )

    return [
        _found(f"{model}.found", ours, bar=FOUND_BAR),
        _found(f"{model}.found.{MLX_LM_SERVER}", rivals),
        *(
            ratio(
                f"{model}.answer_p{100 * share:.0f}_over_{MLX_LM_SERVER}",
                of_answers(share),
                bar=OVER_RIVAL_BAR,
                rival=MLX_LM_SERVER,
            )
            for share in (0.5, 0.95)
        ),
        ratio(
            f"{model}.all_over_{MLX_LM_SERVER}",
            median_ratio([one.all_seconds for one in ours], [one.all_seconds for one in rivals]),
            bar=OVER_RIVAL_BAR,
            rival=MLX_LM_SERVER,
        ),
    ]


def _found(name: str, samples: Sequence[Sample], *, bar: float | None = None) -> Result:
    """Of all prompts' tokens."""
    found = median([one.found for one in samples])
    return Result(name=name, value=found, unit="share", better="higher", bar=bar)

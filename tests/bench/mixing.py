"""TTFT of a plain request behind one with a seed, with a high temperature, and with logprobs.

Rival: mlx_lm.server, which lets a seeded request run alone to its end.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tests.bench.answers import read_answer
from tests.bench.background import running_streams
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

PROMPT_TOKENS = 40
ANSWER_TOKENS = 4
# Long enough for our plain request to come in the middle, and the rival's to wait for the end.
FIRST_TOKENS = {"tiny": 1_500, "small": 500}
LEAD_SECONDS = 0.2  # from the first one's text to the plain request
KINDS: dict[str, tuple[float, dict[str, Any]]] = {
    "seed": (0.8, {"seed": 7}),
    "temperature": (1.8, {}),
    "logprobs": (0.0, {"logprobs": True, "top_logprobs": 5}),
}
IDLE_FACTOR, EXTRA_STEPS = 1.5, 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds. `step` is the usual gap of the stream in front."""

    idle_ttft: float
    ttft: float
    step: float


def run(options: Options) -> Report:
    models = options.models or ("tiny",)
    budget = Budget(options.seconds, num_parts=len(models) * len(KINDS))
    report = Report()
    for model in models:
        with contestants(model) as sides:
            for kind in KINDS:
                samples = interleave(
                    {
                        target.name: _measuring(sides, target, model, kind)
                        for target in sides.targets
                    },
                    rounds=options.rounds or 6,
                    deadline=budget.next_deadline(),
                )
                report.results += _results(f"{model}.behind_{kind}", samples)
    return report


def _measuring(
    sides: Contestants, target: Target, model: str, kind: str
) -> Callable[[int], Sample]:
    temperature, more = KINDS[kind]

    def prompt(label: str) -> str:
        return sides.prompts.prompt(f"{model} {kind} {label}", tokens=PROMPT_TOKENS)

    def measure(number: int) -> Sample:
        first = Question(
            prompt=prompt(f"first {number}"),
            max_tokens=FIRST_TOKENS[model],
            temperature=temperature,
            more=more,
        )
        idle, behind = (
            Question(prompt=prompt(f"{when} {number}"), max_tokens=ANSWER_TOKENS)
            for when in ("idle", "behind")
        )
        with quiet_collector():
            return asyncio.run(_measure(target, first, idle, behind))

    return measure


async def _measure(target: Target, first: Question, idle: Question, behind: Question) -> Sample:
    idle_answer = await ask_among_others(target, idle)
    async with running_streams(target, [first], may_end=True) as (exchange,):
        await asyncio.sleep(LEAD_SECONDS)
        answer = await ask_among_others(target, behind)
    text_at = read_answer(exchange.recording).text_at
    return Sample(
        idle_ttft=idle_answer.ttft,
        ttft=answer.ttft,
        step=median([later - earlier for earlier, later in pairwise(text_at)]),
    )


def _results(cell: str, samples: dict[str, list[Sample]]) -> list[Result]:
    results = [result for name, side in samples.items() for result in _side(cell, name, side)]
    over_rival = median_ratio(
        [sample.ttft for sample in samples[HEARTH]],
        [sample.ttft for sample in samples[MLX_LM_SERVER]],
    )
    return [*results, ratio(f"{cell}.ttft_over_{MLX_LM_SERVER}", over_rival, rival=MLX_LM_SERVER)]


def _side(cell: str, name: str, samples: list[Sample]) -> list[Result]:
    idle = median([sample.idle_ttft for sample in samples])
    step = median([sample.step for sample in samples])
    ttft = median([sample.ttft for sample in samples])
    bar = 1000 * (IDLE_FACTOR * idle + EXTRA_STEPS * step)
    return [
        milliseconds(f"{cell}.idle_ttft.{name}", idle),
        milliseconds(f"{cell}.step.{name}", step),
        milliseconds(f"{cell}.ttft.{name}", ttft, bar=bar if name == HEARTH else None),
    ]

"""TTFT of a long prompt while many streams decode, against the same alone. Rival: mlx_lm.server."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

from tests.bench.background import ENDLESS_TOKENS, running_streams
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median

LONG_TOKENS = 6_000
NUM_STREAMS = 16
BAR = 2.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """TTFT in seconds."""

    alone: float
    among_streams: float


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    streams = options.streams[0] if options.streams else NUM_STREAMS
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with contestants(model, fields={"max_rows": streams + 1}) as sides:
            samples = interleave(
                {
                    target.name: _measuring(sides, target, model, streams=streams)
                    for target in sides.targets
                },
                rounds=options.rounds or 4,
                deadline=budget.next_deadline(),
            )
            report.results += _results(f"{model}-{streams}", samples)
    return report


def _measuring(
    sides: Contestants, target: Target, model: str, *, streams: int
) -> Callable[[int], Sample]:
    def question(label: str, *, tokens: int, max_tokens: int) -> Question:
        prompt = sides.prompts.prompt(f"{model} starvation {label}", tokens=tokens)
        return Question(prompt=prompt, max_tokens=max_tokens)

    def measure(number: int) -> Sample:
        background = [
            question(f"stream {number} {stream}", tokens=40, max_tokens=ENDLESS_TOKENS)
            for stream in range(streams)
        ]
        long = [
            question(f"{where} {number}", tokens=LONG_TOKENS, max_tokens=4)
            for where in ("alone", "among")
        ]
        with quiet_collector():
            return asyncio.run(_measure(target, background, *long))

    return measure


async def _measure(
    target: Target, background: list[Question], alone: Question, among: Question
) -> Sample:
    answer_alone = await ask_among_others(target, alone)
    async with running_streams(target, background):
        answer_among = await ask_among_others(target, among)
    return Sample(alone=answer_alone.ttft, among_streams=answer_among.ttft)


def _results(cell: str, samples: dict[str, list[Sample]]) -> list[Result]:
    results = []
    for name, side in samples.items():
        slowdown = median([sample.among_streams / sample.alone for sample in side])
        results += [
            milliseconds(f"{cell}.ttft_alone.{name}", median([sample.alone for sample in side])),
            ratio(f"{cell}.ttft_over_alone.{name}", slowdown, bar=BAR if name == HEARTH else None),
        ]
    return results

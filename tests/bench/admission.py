"""TTFT of short prompts that arrive while other streams run. Rival: mlx_lm.server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from tests.bench.background import ENDLESS_TOKENS, running_streams
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import flat, median, median_ratio, percentile

PROBE_TOKENS = 10
PROBES_PER_ROUND = 8
PAUSE_SECONDS = (0.05, 0.25)  # random, so that probes do not fall into step with a server's turns
ANSWER_TOKENS = 4
BAR = 0.1


def run(options: Options) -> Report:
    models, streams = options.models or ("tiny", "small"), options.streams or (1, 8)
    budget = Budget(options.seconds, num_parts=len(models) * (1 + len(streams)))
    report = Report()
    for model in models:
        with contestants(model) as sides:
            for number in (0, *streams):
                ttfts = interleave(
                    {
                        target.name: _probing(sides, target, f"{model} {number}", streams=number)
                        for target in sides.targets
                    },
                    rounds=options.rounds or 4,
                    deadline=budget.next_deadline(),
                )
                report.results += _results(f"{model}-{number}", ttfts, is_idle=number == 0)
    return report


def _probing(
    sides: Contestants, target: Target, label: str, *, streams: int
) -> Callable[[int], list[float]]:
    def probe(number: int) -> list[float]:
        background = [
            Question(
                prompt=sides.prompts.prompt(f"{label} background {number} {stream}", tokens=40),
                max_tokens=ENDLESS_TOKENS,
            )
            for stream in range(streams)
        ]
        probes = [
            Question(
                prompt=sides.prompts.prompt(f"{label} probe {number} {place}", tokens=PROBE_TOKENS),
                max_tokens=ANSWER_TOKENS,
            )
            for place in range(PROBES_PER_ROUND)
        ]
        with quiet_collector():
            return asyncio.run(_probe_ttfts(target, background, probes, random.Random(label)))

    return probe


async def _probe_ttfts(
    target: Target, background: list[Question], probes: list[Question], chooser: random.Random
) -> list[float]:
    ttfts = []
    async with running_streams(target, background):
        for probe in probes:
            await asyncio.sleep(chooser.uniform(*PAUSE_SECONDS))
            ttfts.append((await ask_among_others(target, probe)).ttft)
    return ttfts


def _results(cell: str, ttfts: dict[str, list[list[float]]], *, is_idle: bool) -> list[Result]:
    absolute = [
        milliseconds(f"{cell}.ttft_p{share * 100:.0f}.{name}", percentile(flat(rounds), share))
        for name, rounds in ttfts.items()
        for share in (0.5, 0.9, 1.0)
    ]
    p50_ratio = median_ratio(
        [median(one) for one in ttfts[HEARTH]], [median(one) for one in ttfts[MLX_LM_SERVER]]
    )
    name = f"{cell}.ttft_p50_over_{MLX_LM_SERVER}"
    bar = None if is_idle else BAR
    return [*absolute, ratio(name, p50_ratio, bar=bar, rival=MLX_LM_SERVER)]

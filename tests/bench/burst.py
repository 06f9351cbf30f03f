"""One long and seven short prompts at once: who waits for whom.

Rivals: BatchGenerator in process, which reads them padded to one length, and mlx_lm.server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question
from tests.bench.load import Load, run_load
from tests.bench.names import BATCH_GENERATOR, HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

LONG_TOKENS = 1_500
SHORT_TOKENS = 20
NUM_SHORT = 7
ANSWER_TOKENS = 32
SHORT_BAR = 0.1
LONG_BAR = 1.05  # no later, but for what the clock cannot tell apart


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """TTFT in seconds: the long prompt's, the usual and the worst of the short ones."""

    long: float
    short: float
    last_short: float


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with contestants(model) as sides:
            samples = interleave(
                _measuring(sides, model),
                rounds=options.rounds or 6,
                deadline=budget.next_deadline(),
            )
            report.results += _results(model, samples)
    return report


def _measuring(sides: Contestants, model: str) -> dict[str, Callable[[int], Sample]]:
    def streams(number: int) -> list[list[Question]]:
        lengths = [LONG_TOKENS] + [SHORT_TOKENS] * NUM_SHORT
        return [
            [
                Question(
                    prompt=sides.prompts.prompt(f"{model} burst {number} {place}", tokens=tokens),
                    max_tokens=ANSWER_TOKENS,
                )
            ]
            for place, tokens in enumerate(lengths)
        ]

    return {
        HEARTH: lambda number: _sample(run_load(sides.ours, streams(number))),
        MLX_LM_SERVER: lambda number: _sample(run_load(sides.server, streams(number))),
        BATCH_GENERATOR: lambda number: _sample(sides.generator.run_load(streams(number))),
    }


def _sample(load: Load) -> Sample:
    long, *short = load.ttfts
    return Sample(long=long, short=median(short), last_short=max(short))


def _results(model: str, samples: dict[str, list[Sample]]) -> list[Result]:
    absolute = [
        milliseconds(
            f"{model}.{field}_ttft.{name}", median([getattr(sample, field) for sample in side])
        )
        for name, side in samples.items()
        for field in ("short", "last_short", "long")
    ]
    bars = {"short": SHORT_BAR, "last_short": SHORT_BAR, "long": LONG_BAR}
    ratios = [
        ratio(
            f"{model}.{field}_ttft_over_{rival}",
            median_ratio(
                [getattr(sample, field) for sample in samples[HEARTH]],
                [getattr(sample, field) for sample in samples[rival]],
            ),
            bar=bars[field] if rival == BATCH_GENERATOR else None,
            rival=rival,
        )
        for rival in (BATCH_GENERATOR, MLX_LM_SERVER)
        for field in bars
    ]
    return [*absolute, *ratios]

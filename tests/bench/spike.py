"""One identical prompt many times in a row: no request may pay for what others left behind.

Rival: mlx_lm.server.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import run_load
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import flat, median

NUM_REPEATS = 30
PROMPT_TOKENS = 400
ANSWER_TOKENS = 8
BAR = 1.5


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with contestants(model) as sides:
            ttfts = interleave(
                {target.name: _measuring(sides, target, model) for target in sides.targets},
                rounds=options.rounds or 6,
                deadline=budget.next_deadline(),
            )
            for name, rounds in ttfts.items():
                report.results += _results(f"{model}", name, rounds)
    return report


def _measuring(
    sides: Contestants, target: Target, model: str
) -> Callable[[int], tuple[float, ...]]:
    def measure(number: int) -> tuple[float, ...]:
        prompt = sides.prompts.prompt(f"{model} spike {number}", tokens=PROMPT_TOKENS)
        question = Question(prompt=prompt, max_tokens=ANSWER_TOKENS)
        return run_load(target, [[question] * NUM_REPEATS]).ttfts

    return measure


def _results(model: str, name: str, rounds: list[tuple[float, ...]]) -> list[Result]:
    """The first request of a round is cold and stands apart; the others are alike."""
    repeats = [ttfts[1:] for ttfts in rounds]
    worst = median([max(ttfts) / median(ttfts) for ttfts in repeats])
    return [
        milliseconds(f"{model}.first_ttft.{name}", median([ttfts[0] for ttfts in rounds])),
        milliseconds(f"{model}.ttft_p50.{name}", median(flat(repeats))),
        milliseconds(f"{model}.ttft_max.{name}", max(flat(repeats))),
        ratio(f"{model}.max_over_median.{name}", worst, bar=BAR if name == HEARTH else None),
    ]

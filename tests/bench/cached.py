"""What the prefix cache spares a prompt of 1,800 tokens: its time to the first token, warm / cold.

Rival: mlx_lm.server, which keeps whole prompts in memory.
"""

from __future__ import annotations

from tests.bench.cold import Sample
from tests.bench.models import RECIPES, USUAL
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, ratio
from tests.bench.stats import median_ratio
from tests.bench.warmth import FORMS, measure_warmth, times, warmth_results

BARS = {"small": {"repeat": 0.03, "second_turn": 0.05}}
REPEAT_OVER_LONGER_BAR = 1.2
OVER_RIVAL_BAR = 1.0
NUM_ROUNDS = 8


def run(options: Options) -> Report:
    models = {name: RECIPES[name] for name in options.models or USUAL}
    report = Report()
    for model, samples in measure_warmth(models, options, rounds=NUM_ROUNDS):
        report.results += warmth_results(model, samples, BARS.get(model, {}))
        report.results += _comparisons(model, samples[HEARTH], samples[MLX_LM_SERVER])
    return report


def _comparisons(model: str, ours: list[Sample], rivals: list[Sample]) -> list[Result]:
    return [
        ratio(
            f"{model}.repeat_over_longer.{HEARTH}",
            median_ratio(times(ours, "repeat"), times(ours, "longer")),
            bar=REPEAT_OVER_LONGER_BAR,
        ),
        *(
            ratio(
                f"{model}.{form}_over_{MLX_LM_SERVER}",
                median_ratio(times(ours, form), times(rivals, form)),
                bar=OVER_RIVAL_BAR,
                rival=MLX_LM_SERVER,
            )
            for form in FORMS
        ),
    ]

"""What the prefix cache spares a prompt of 1,800 tokens: its time to the first token, warm / cold.

Rival: mlx_lm.server, which keeps whole prompts in memory.
"""

from __future__ import annotations

from tests.bench.contestants import MODELS
from tests.bench.options import Options
from tests.bench.ours import HEARTH
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rivals import MLX_LM_SERVER
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio
from tests.bench.warmth import FORMS, Sample, both_sides, measuring, over_cold
from tests.tiny_models import tiny_model_path

PROMPT_TOKENS = 1_800
BARS = {("small", "repeat"): 0.03, ("small", "second_turn"): 0.05}
REPEAT_OVER_LONGER_BAR = 1.2
OVER_RIVAL_BAR = 1.0


def run(options: Options) -> Report:
    models = options.models or tuple(MODELS)
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with both_sides(model, tiny_model_path(MODELS[model])) as (ours, server, prompts):
            samples = interleave(
                {
                    target.name: measuring(target, prompts, model, tokens=PROMPT_TOKENS)
                    for target in (ours, server)
                },
                rounds=options.rounds or 8,
                deadline=budget.next_deadline(),
            )
        report.results += _results(model, samples)
    return report


def _results(model: str, samples: dict[str, list[Sample]]) -> list[Result]:
    return [
        *(result for name in samples for result in _side(model, name, samples[name])),
        ratio(
            f"{model}.repeat_over_longer.{HEARTH}",
            median_ratio(_times(samples[HEARTH], "repeat"), _times(samples[HEARTH], "longer")),
            bar=REPEAT_OVER_LONGER_BAR,
        ),
        *(
            ratio(
                f"{model}.{form}_over_{MLX_LM_SERVER}",
                median_ratio(_times(samples[HEARTH], form), _times(samples[MLX_LM_SERVER], form)),
                bar=OVER_RIVAL_BAR,
                rival=MLX_LM_SERVER,
            )
            for form in FORMS
        ),
    ]


def _side(model: str, name: str, samples: list[Sample]) -> list[Result]:
    """The bars are ours to hold; the rival's figures stand beside them."""
    times = [
        milliseconds(f"{model}.{form}.{name}", median(_times(samples, form)))
        for form in ("cold", *FORMS)
    ]
    ratios = [
        ratio(
            f"{model}.{form}_over_cold.{name}",
            over_cold(samples, form),
            bar=BARS.get((model, form)) if name == HEARTH else None,
        )
        for form in FORMS
    ]
    return [*times, *ratios]


def _times(samples: list[Sample], form: str) -> list[float]:
    return [sample[form] for sample in samples]

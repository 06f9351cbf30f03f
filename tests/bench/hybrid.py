"""The prefix cache on models whose layers cannot be cut anywhere: warm / cold first token.

Rival: mlx_lm.server.
"""

from __future__ import annotations

from tests.bench.options import Options
from tests.bench.ours import HEARTH
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median
from tests.bench.warmth import FORMS, Sample, both_sides, measuring, over_cold
from tests.tiny_models import tiny_model_path

MODELS = {"hybrid": "tiny-qwen3-next", "windowed": "tiny-gemma3", "mamba": "tiny-mamba"}
PROMPT_TOKENS = 1_800
SECOND_TURN_BAR = 0.1


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
                rounds=options.rounds or 4,
                deadline=budget.next_deadline(),
            )
        for name, side in samples.items():
            report.results += _side(model, name, side)
    return report


def _side(model: str, name: str, samples: list[Sample]) -> list[Result]:
    def bar(form: str) -> float | None:
        return SECOND_TURN_BAR if name == HEARTH and form == "second_turn" else None

    cold = median([sample["cold"] for sample in samples])
    return [
        milliseconds(f"{model}.cold.{name}", cold),
        *(
            ratio(f"{model}.{form}_over_cold.{name}", over_cold(samples, form), bar=bar(form))
            for form in FORMS
        ),
    ]

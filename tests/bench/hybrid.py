"""The prefix cache on models whose layers cannot be cut anywhere: warm / cold first token.

Rival: mlx_lm.server.
"""

from __future__ import annotations

from tests.bench.options import Options
from tests.bench.report import Report
from tests.bench.warmth import measure_warmth, warmth_results

MODELS = {"hybrid": "tiny-qwen3-next", "windowed": "tiny-gemma3", "mamba": "tiny-mamba"}
BARS = {"second_turn": 0.1}
NUM_ROUNDS = 4


def run(options: Options) -> Report:
    models = {name: MODELS[name] for name in options.models or MODELS}
    report = Report()
    for model, samples in measure_warmth(models, options, rounds=NUM_ROUNDS):
        report.results += warmth_results(model, samples, BARS)
    return report

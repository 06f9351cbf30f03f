"""What the prefix cache costs where nothing repeats: throughput with it / without it.

Engine in process, twice: as it is set up by itself, and with both tiers off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tests.bench.cache_jobs import OFF, CacheJobs, cache_jobs, tokens
from tests.bench.contestants import MODELS
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio
from tests.tiny_models import tiny_model_path

NUM_STREAMS = 8
PROMPT_TOKENS = 600
ANSWER_TOKENS = 64
BAR = 0.99


def run(options: Options) -> Report:
    models = options.models or tuple(MODELS)
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        path = tiny_model_path(MODELS[model])
        with contextlib.ExitStack() as stack:
            cached = stack.enter_context(cache_jobs(path))
            bare = stack.enter_context(cache_jobs(path))
            cached.start()
            bare.start(memory_bytes=OFF, disk_bytes=OFF)
            speeds = interleave(
                {"on": _measuring(cached, model), "off": _measuring(bare, model)},
                rounds=options.rounds or 8,
                deadline=budget.next_deadline(),
            )
        report.results += [
            *(
                Result(
                    name=f"{model}.tokens_per_second.{name}",
                    value=median(side),
                    unit="tok/s",
                    better="higher",
                )
                for name, side in speeds.items()
            ),
            ratio(
                f"{model}.on_over_off",
                median_ratio(speeds["on"], speeds["off"]),
                better="higher",
                bar=BAR,
            ),
        ]
    return report


def _measuring(engine: CacheJobs, model: str) -> Callable[[int], float]:
    """Tokens, read and written, per second."""

    def measure(number: int) -> float:
        prompts = [
            tokens(f"{model} {number} {stream}", PROMPT_TOKENS) for stream in range(NUM_STREAMS)
        ]
        fared, seconds = engine.ask_together(prompts, max_tokens=ANSWER_TOKENS)
        if any(one.cached_tokens for one in fared):
            raise BenchmarkFailed(f"{model}: something was found in the cache")
        return NUM_STREAMS * (PROMPT_TOKENS + ANSWER_TOKENS) / seconds

    return measure

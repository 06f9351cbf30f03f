"""What the prefix cache costs where nothing repeats: throughput with it / without it.

Engine in process, twice: as it is set up by itself, and with both tiers off. The clock of a machine
that is not quite still is off by more than the bar allows; the time on the cores, writing to disk
included, is not.
"""

from __future__ import annotations

import contextlib
import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens, read and written, a second of the clock and of the process's time on all cores."""

    by_clock: float
    by_cpu: float


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
        report.results += _results(model, speeds)
    return report


def _results(model: str, speeds: dict[str, list[Speed]]) -> list[Result]:
    on, off = ([one.by_clock for one in speeds[side]] for side in ("on", "off"))
    cpu_on, cpu_off = ([one.by_cpu for one in speeds[side]] for side in ("on", "off"))
    return [
        *(
            Result(
                name=f"{model}.tokens_per_second.{name}",
                value=median(side),
                unit="tok/s",
                better="higher",
            )
            for name, side in (("on", on), ("off", off))
        ),
        ratio(f"{model}.on_over_off", median_ratio(on, off), better="higher", bar=BAR),
        ratio(
            f"{model}.on_over_off_by_cpu", median_ratio(cpu_on, cpu_off), better="higher", bar=BAR
        ),
    ]


def _measuring(engine: CacheJobs, model: str) -> Callable[[int], Speed]:
    def measure(number: int) -> Speed:
        prompts = [
            tokens(f"{model} {number} {stream}", PROMPT_TOKENS) for stream in range(NUM_STREAMS)
        ]
        asked = engine.ask_together(prompts, max_tokens=ANSWER_TOKENS)
        if any(one.cached_tokens for one in asked.fared):
            raise BenchmarkFailed(f"{model}: something was found in the cache")
        num_tokens = NUM_STREAMS * (PROMPT_TOKENS + ANSWER_TOKENS)
        return Speed(by_clock=num_tokens / asked.seconds, by_cpu=num_tokens / asked.cpu_seconds)

    return measure

"""What the prefix cache costs where nothing repeats: throughput with it / without it.

Engine in process, twice: as it is set up by itself, and with both tiers off. The clock of a machine
that is not quite still is off by more than the bar allows; the time on the cores, writing to disk
included, is not.
What is to be written to disk waits while requests run. So neither side is asked before it is
written, and the same prompts are also asked without a pause, from when the writer keeps pace on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable

from engine.cache.io_thread import HELD_SECONDS
from tests.bench.cache_jobs import OFF, CacheJobs, cache_jobs, tokens
from tests.bench.models import USUAL, model_path
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

NUM_STREAMS = 8
PROMPT_TOKENS = 600
ANSWER_TOKENS = 64
SUSTAINED_SECONDS = 8.0
SUSTAINED_ROUNDS = 3
BAR = 0.99


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens, read and written, a second of the clock and of the process's time on all cores."""

    by_clock: float
    by_cpu: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """For the prompts of all streams, once."""

    seconds: float
    cpu_seconds: float


def run(options: Options) -> Report:
    models = options.models or USUAL
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        path = model_path(model)
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
            sustained = interleave(
                {"on": _sustaining(cached, model), "off": _sustaining(bare, model)},
                rounds=SUSTAINED_ROUNDS,
                deadline=float("inf"),
            )
        report.results += _results(model, speeds) + _results(f"{model}.sustained", sustained)
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
        speed = _speed([_ask(engine, f"{model} {number}")])
        engine.await_writer()
        return speed

    return measure


def _sustaining(engine: CacheJobs, model: str) -> Callable[[int], Speed]:
    def measure(number: int) -> Speed:
        begun_at, took = time.monotonic(), []
        while (seconds := time.monotonic() - begun_at) < HELD_SECONDS + SUSTAINED_SECONDS:
            one = _ask(engine, f"{model} sustained {number} {seconds}")
            if seconds > HELD_SECONDS:
                took.append(one)
        engine.await_writer()
        return _speed(took)

    return measure


def _ask(engine: CacheJobs, label: str) -> Took:
    prompts = [tokens(f"{label} {stream}", PROMPT_TOKENS) for stream in range(NUM_STREAMS)]
    asked = engine.ask_together(prompts, max_tokens=ANSWER_TOKENS)
    if any(one.cached_tokens for one in asked.fared):
        raise BenchmarkFailed(f"{label}: something was found in the cache")
    return Took(seconds=asked.seconds, cpu_seconds=asked.cpu_seconds)


def _speed(took: list[Took]) -> Speed:
    num_tokens = len(took) * NUM_STREAMS * (PROMPT_TOKENS + ANSWER_TOKENS)
    return Speed(
        by_clock=num_tokens / sum(one.seconds for one in took),
        by_cpu=num_tokens / sum(one.cpu_seconds for one in took),
    )

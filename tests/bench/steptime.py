"""What a decode step of 32 rows costs beside the model: scheduling, text, events, the queue.

What the device does not wait for costs nothing: the bar is on the critical path, where it has
nothing to do meanwhile. All of it may not grow with the number of requests that wait. Rival, for
the whole step: BatchGenerator.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

from tests.bench.exchange import Question
from tests.bench.models import model_path
from tests.bench.names import BATCH_GENERATOR, HEARTH
from tests.bench.options import Options
from tests.bench.prompts import PromptMaker
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rivals import (
    InProcess,
    StepTimer,
    StepTimes,
    batch_generator,
    engine_loop,
    step_timer,
)
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import flat, median, median_ratio, percentile

NUM_ROWS = 32
QUEUES = (500, 10_000)
NUM_STEPS = 200
ANSWER_TOKENS = 64
CRITICAL_BAR_MS = 0.3
FLAT_BAR = 1.25  # what the clock can tell apart on a machine with other work


def run(options: Options) -> Report:
    models = options.models or ("tiny",)
    budget = Budget(options.seconds, num_parts=2 * len(models))
    report = Report()
    for model in models:
        with _sides(model) as (timer, loop, generator, prompts):
            times = interleave(
                {str(queue): _timing(timer, queue) for queue in QUEUES},
                rounds=options.rounds or 3,
                deadline=budget.next_deadline(),
            )
            report.results += _outside_results(model, times)
            gaps = interleave(
                {
                    HEARTH: _decoding(loop, prompts, model),
                    BATCH_GENERATOR: _decoding(generator, prompts, model),
                },
                rounds=options.rounds or 3,
                deadline=budget.next_deadline(),
            )
            report.results += _step_results(model, gaps)
    return report


@contextlib.contextmanager
def _sides(model: str) -> Iterator[tuple[StepTimer, InProcess, InProcess, PromptMaker]]:
    path = model_path(model)
    with (
        tempfile.TemporaryDirectory() as logs,
        step_timer(path, Path(logs)) as timer,
        engine_loop(path, Path(logs)) as loop,
        batch_generator(path, Path(logs)) as generator,
    ):
        yield timer, loop, generator, PromptMaker(path)


def _timing(timer: StepTimer, queue: int) -> Callable[[int], StepTimes]:
    return lambda _: timer.time(queue=queue, steps=NUM_STEPS)


def _decoding(engine: InProcess, prompts: PromptMaker, model: str) -> Callable[[int], float]:
    def gap(number: int) -> float:
        streams = [
            [
                Question(
                    prompt=prompts.prompt(f"{model} steptime {number} {row}", tokens=40),
                    max_tokens=ANSWER_TOKENS,
                )
            ]
            for row in range(NUM_ROWS)
        ]
        return median(engine.run_load(streams).gaps)

    return gap


def _outside_results(model: str, times: dict[str, list[StepTimes]]) -> list[Result]:
    outside = {queue: [one.outside for one in rounds] for queue, rounds in times.items()}
    critical = {queue: [one.critical for one in rounds] for queue, rounds in times.items()}
    return [
        *_part_results(f"{model}.critical_path", critical, bar=CRITICAL_BAR_MS),
        *_part_results(f"{model}.outside_model", outside, bar=None),
        _growth(f"{model}.outside_model_long_over_short_queue", outside),
    ]


def _part_results(
    name: str, samples: dict[str, list[list[float]]], *, bar: float | None
) -> list[Result]:
    return [
        milliseconds(f"{name}_{figure}.queue_{queue}", value, bar=own_bar)
        for queue, rounds in samples.items()
        for figure, value, own_bar in (
            ("p50", median([median(one) for one in rounds]), bar),
            ("mean", fmean(flat(rounds)), None),
            ("p95", percentile(flat(rounds), 0.95), None),
        )
    ]


def _growth(name: str, samples: dict[str, list[list[float]]]) -> Result:
    short, long = ([median(one) for one in samples[str(queue)]] for queue in QUEUES)
    return ratio(name, median_ratio(long, short), bar=FLAT_BAR)


def _step_results(model: str, gaps: dict[str, list[float]]) -> list[Result]:
    over_rival = median_ratio(gaps[HEARTH], gaps[BATCH_GENERATOR])
    return [
        *(milliseconds(f"{model}.step.{name}", median(gaps[name])) for name in gaps),
        ratio(f"{model}.step_over_{BATCH_GENERATOR}", over_rival, rival=BATCH_GENERATOR),
    ]

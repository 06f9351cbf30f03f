"""A model's benchmarks as plots, the oldest first. Pure but for what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hosting.benchmarks.figures import Figure, overall, speed_rows
from hosting.models import Benchmark, QuestionSet
from hosting.plots import Plot, Series, Values, plot

_MOST_RUNS = 200
_MOST_SETS = 4
_MOST_SERIES = 5
_LEAST_STEP_SECONDS = 60


def history_of(model_name: str) -> dict[str, Any]:
    """In the form that plots.js draws."""
    newest = Benchmark.objects.filter(model_name=model_name, started_at__isnull=False)
    runs = list(newest[:_MOST_RUNS])[::-1]
    times = [run.created_at.timestamp() for run in runs]
    span = times[-1] - times[0] if times else 0
    plots = [one for one in (*_accuracy(runs), *_speed(runs)) if one.series]
    return {
        "times": times,
        "step_seconds": max(_LEAST_STEP_SECONDS, round(span / max(1, len(times)))),
        "window": "",
        "marks": [],
        "plots": [dataclasses.asdict(one) for one in plots],
    }


def _accuracy(runs: Sequence[Benchmark]) -> Iterable[Plot]:
    """A plot for each set: shares of different questions make no line."""
    ids = {run.question_set_id for run in runs}
    for one in QuestionSet.objects.untold().filter(pk__in=ids)[:_MOST_SETS]:
        shares = [overall(run) if run.question_set_id == one.pk else None for run in runs]
        if not any(shares):
            continue
        figures = [share.figure if share else None for share in shares]
        yield plot(
            (f"accuracy-{one.pk}", f"Right answers: {one}", "percent", "lines"),
            _series("Right", [_value(figure) for figure in figures], 1),
            _series("95 %: lowest", [_end(figure, 0) for figure in figures], 4),
            _series("95 %: highest", [_end(figure, 1) for figure in figures], 4),
        )


def _speed(runs: Sequence[Benchmark]) -> Iterable[Plot]:
    tables = [{row.key: row.figure for row in speed_rows(run)} for run in runs]
    streams = sorted({size for run in runs for size in run.streams})
    lengths = sorted({size for run in runs for size in run.prompt_lengths})

    def series(sizes: Sequence[int], key: str, name: Callable[[int], str]) -> list[Series]:
        columns = {
            size: [_value(table.get(key.format(size))) for table in tables] for size in sizes
        }
        known = [size for size in sizes if any(one is not None for one in columns[size])]
        shown = enumerate(known[:_MOST_SERIES], start=1)
        return [_series(name(size), columns[size], tone) for tone, size in shown]

    def at_once(size: int) -> str:
        return f"{size} at once"

    def tokens(size: int) -> str:
        return f"{size:,} tokens"

    rate = "tokens_per_second"
    writing = series(streams, "write-{}-total", at_once)
    yield plot(("writing", "Writing, all streams together", rate, "lines"), *writing)
    reading = series(lengths, "read-{}-rate", tokens)
    yield plot(("reading", "Reading new prompts", rate, "lines"), *reading)
    first = series(lengths, "read-{}-ttft", tokens)
    yield plot(("ttft", "First token of new prompts", "seconds", "lines"), *first)


def _series(label: str, values: Values, tone: int) -> Series:
    highest = max((one for one in values if one is not None), default=None)
    return Series(label=label, values=values, tone=tone, highest=highest)


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _end(figure: Figure | None, which: int) -> float | None:
    return None if figure is None or figure.interval is None else figure.interval[which]

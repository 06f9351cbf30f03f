"""Makes figures of what a benchmark has measured: each with what is between luck and knowledge.
Pure but for the answers that it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from hosting.benchmarks.intervals import Interval, median, percentile, spread, wilson
from hosting.models import Benchmark


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`unit`: tokens_per_second, seconds or percent, as plots have it. `interval` None: there was
    one measurement, or it says something of the tail already."""

    value: float
    unit: str
    interval: Interval | None = None

    @property
    def text(self) -> str:
        return written(self.value, self.unit)

    @property
    def range_text(self) -> str:
        if self.interval is None:
            return ""
        low, high = (written(one, self.unit, is_short=True) for one in self.interval)
        return f"{low} to {high}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure with its name. `key` is the same in every run."""

    key: str
    label: str
    figure: Figure | None
    is_more_better: bool
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of the questions of a category, or of every one: a category may be called "All", too."""

    category: str
    right: int
    asked: int
    is_every: bool = False

    @property
    def figure(self) -> Figure:
        low, high = wilson(self.right, self.asked)
        share = 100 * self.right / self.asked if self.asked else 0.0
        return Figure(value=share, unit="percent", interval=Interval(100 * low, 100 * high))


def speed_rows(benchmark: Benchmark) -> list[Row]:
    return [row for item in benchmark.speed for row in _rows(item)]


def overall(benchmark: Benchmark) -> Share | None:
    """None while nothing is answered."""
    if not benchmark.num_asked:
        return None
    right, asked = benchmark.num_right, benchmark.num_asked
    return Share(category="All", right=right, asked=asked, is_every=True)


def shares_of(benchmark: Benchmark) -> list[Share]:
    """All, then by category in the order of the set."""
    every = overall(benchmark)
    if benchmark.question_set is None or every is None:
        return []
    counts: dict[str, list[int]] = {}
    questions = benchmark.question_set.questions
    for number, is_right in benchmark.answers.values_list("number", "is_right"):
        count = counts.setdefault(questions[number - 1]["category"], [0, 0])
        count[0] += is_right
        count[1] += 1
    some = [Share(category=name, right=of[0], asked=of[1]) for name, of in counts.items()]
    return [every, *(some if len(some) > 1 else [])]


def written(value: float, unit: str, *, is_short: bool = False) -> str:
    if unit == "percent":
        return f"{value:.1f} %"
    if unit == "seconds":
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.2f} s"
    number = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return number if is_short else f"{number} tok/s"


def _rows(item: dict[str, Any]) -> list[Row]:
    return _reading(item) if item["kind"] == "reading" else _writing(item)


def _reading(item: dict[str, Any]) -> list[Row]:
    tokens = item["tokens"]
    key, of = f"read-{tokens}", f"{tokens:,} tokens"
    if "skipped" in item:
        return [_row(f"{key}-ttft", f"First token, {of}", None, note=item["skipped"])]
    cached = f"{item['warm_cached']:,} of {of} from the cache"
    return [
        _row(f"{key}-ttft", f"First token, {of}, p50", _seconds(item["ttft"])),
        _row(f"{key}-ttft95", f"First token, {of}, p95", _tail(item["ttft"])),
        _row(
            f"{key}-warm", f"First token, {of}, sent again", _once(item["warm_ttft"]), note=cached
        ),
        _row(f"{key}-rate", f"Reading, {of}", _rate(item["rates"]), is_more_better=True),
    ]


def _writing(item: dict[str, Any]) -> list[Row]:
    streams = item["streams"]
    is_alone = streams == 1
    key, of = f"write-{streams}", "1 alone" if is_alone else f"{streams} at once"
    together = f"Writing, {of}" if is_alone else f"Writing, {of}, together"
    if "skipped" in item:
        return [_row(f"{key}-total", together, None, note=item["skipped"])]
    is_short = item["shortest"] < item["wanted"]
    note = f"Some answers ended after {item['shortest']} tokens." if is_short else ""
    each = _row(f"{key}-each", f"Writing, {of}, each", _rate(item["each"]), is_more_better=True)
    return [
        _row(f"{key}-total", together, _rate(item["totals"]), is_more_better=True, note=note),
        *([] if is_alone else [each]),
        _row(f"{key}-ttft", f"First token, {of}, p50", _seconds(item["ttft"])),
        _row(f"{key}-ttft95", f"First token, {of}, p95", _tail(item["ttft"])),
    ]


def _row(
    key: str, label: str, figure: Figure | None, *, is_more_better: bool = False, note: str = ""
) -> Row:
    return Row(key=key, label=label, figure=figure, is_more_better=is_more_better, note=note)


def _seconds(values: Iterable[float | None]) -> Figure | None:
    return _middle(_known(values), "seconds")


def _rate(values: Iterable[float | None]) -> Figure | None:
    return _middle(_known(values), "tokens_per_second")


def _tail(values: Iterable[float | None]) -> Figure | None:
    known = _known(values)
    return Figure(value=percentile(known, 95), unit="seconds") if known else None


def _once(value: float | None) -> Figure | None:
    return None if value is None else Figure(value=value, unit="seconds")


def _middle(values: Sequence[float], unit: str) -> Figure | None:
    if not values:
        return None
    return Figure(value=median(values), unit=unit, interval=spread(values))


def _known(values: Iterable[float | None]) -> list[float]:
    return [one for one in values if one is not None]

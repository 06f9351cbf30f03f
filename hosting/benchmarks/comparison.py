"""Sets benchmarks side by side, and says of each difference whether it is more than luck.

Speeds differ where what was measured lowest and highest does not overlap. Shares of right answers
to the same questions differ where McNemar's exact test says less than 5 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hosting.benchmarks.figures import Figure, Row, shares_of, speed_rows
from hosting.benchmarks.intervals import chance_of_difference
from hosting.models import Benchmark

_SURE = 0.05
_UNCLEAR = "no clear difference"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`verdict` is about the first run; `tone` good, bad or ""."""

    figure: Figure | None
    note: str = ""
    verdict: str = ""
    tone: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    label: str
    cells: Sequence[Cell]


def compare_speed(runs: Sequence[Benchmark]) -> list[Line]:
    tables = [{row.key: row for row in speed_rows(run)} for run in runs]
    known = {row.key: row for table in tables for row in table.values()}
    return [
        Line(label=row.label, cells=[_cell(table.get(key), tables[0].get(key)) for table in tables])
        for key, row in known.items()
    ]


def compare_accuracy(runs: Sequence[Benchmark]) -> list[Line]:
    tables = [{(one.is_every, one.category): one for one in shares_of(run)} for run in runs]
    lines = []
    for key in dict.fromkeys(key for table in tables for key in table):
        is_every, category = key
        cells = []
        for run, table in zip(runs, tables, strict=True):
            share, first = table.get(key), tables[0].get(key)
            if share is None:
                cells.append(Cell(figure=None))
                continue
            note = f"{share.right} of {share.asked}"
            is_other = run is not runs[0] and first is not None
            verdict, tone = _by_answers(runs[0], run) if is_other and is_every else ("", "")
            cells.append(Cell(figure=share.figure, note=note, verdict=verdict, tone=tone))
        lines.append(Line(label=category, cells=cells))
    return lines


def _cell(row: Row | None, first: Row | None) -> Cell:
    if row is None:
        return Cell(figure=None)
    verdict, tone = _by_intervals(row, first) if row is not first and first else ("", "")
    return Cell(figure=row.figure, note=row.note, verdict=verdict, tone=tone)


def _by_intervals(row: Row, first: Row) -> tuple[str, str]:
    ours, theirs = row.figure, first.figure
    if ours is None or theirs is None or ours.interval is None or theirs.interval is None:
        return "", ""
    if ours.interval.overlaps(theirs.interval):
        return _UNCLEAR, ""
    is_more = ours.value > theirs.value
    change = 100 * abs(ours.value / theirs.value - 1)
    tone = "good" if is_more == row.is_more_better else "bad"
    return f"{change:.0f} % {'more' if is_more else 'less'}", tone


def _by_answers(first: Benchmark, run: Benchmark) -> tuple[str, str]:
    """Of questions that both were asked: those that one alone answered rightly decide."""
    if first.question_set_id != run.question_set_id:
        return "other questions: not to be compared", ""
    theirs = dict(first.answers.values_list("number", "is_right"))
    ours = dict(run.answers.values_list("number", "is_right"))
    both = theirs.keys() & ours.keys()
    lost = sum(theirs[one] and not ours[one] for one in both)
    won = sum(ours[one] and not theirs[one] for one in both)
    chance = chance_of_difference(lost, won)
    told = f"right alone here {won}, there {lost}"
    if chance >= _SURE:
        return f"{_UNCLEAR}: {told}", ""
    return f"{'better' if won > lost else 'worse'}: {told}", "good" if won > lost else "bad"

"""Usage as plots, in the form that the instruments' script draws. Pure but for what it reads."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from accounts.figures import Choice, Sums, UsageOverTime

_MOST_SERIES = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """By what the tokens are told apart: a column, its largest values, and what they are called."""

    column: str
    largest: Sequence[str]
    names: Mapping[str, str]


def history(choice: Choice, split: Split, window: str) -> dict[str, Any]:
    usage = UsageOverTime(choice, split.column)
    sums = usage.sums
    return {
        "times": [int(time.timestamp()) for time in usage.times],
        "step_seconds": int(choice.step / datetime.timedelta(seconds=1)),
        "window": window,
        "marks": [],
        "plots": [
            _tokens(usage, split),
            _plot("requests", "Requests", "count", "stack", _requests(sums)),
            _plot("cached", "Prompt tokens from the cache", "percent", "lines", _cached(sums)),
            _plot("ttft", "Time to the first token", "seconds", "lines", _first_tokens(sums)),
        ],
    }


def _tokens(usage: UsageOverTime, split: Split) -> dict[str, Any]:
    shown = split.largest[:_MOST_SERIES]
    found = usage.tokens(shown)
    series = [
        _series(split.names.get(name, name), found[name], tone)
        for tone, name in enumerate(shown, 1)
    ]
    if any(found[""]) and "" not in shown:
        series.append(_series("Others", found[""], _MOST_SERIES + 1))
    return _plot("tokens", "Tokens", "count", "bars", series or [_series("Tokens", [], 1)])


def _requests(sums: Sequence[Sums]) -> list[dict[str, Any]]:
    answered = [one.requests - one.errors for one in sums]
    return [_series("Answered", answered, 1), _series("Failed", [one.errors for one in sums], 5)]


def _cached(sums: Sequence[Sums]) -> list[dict[str, Any]]:
    return [_series("From the cache", [one.cached_percent for one in sums], 2)]


def _first_tokens(sums: Sequence[Sums]) -> list[dict[str, Any]]:
    return [
        _series("Half of them", [one.ttft_p50 for one in sums], 1),
        _series("95 of 100", [one.ttft_p95 for one in sums], 4),
    ]


def _series(label: str, values: Sequence[float | None], tone: int) -> dict[str, Any]:
    return {"label": label, "values": list(values), "tone": tone}


def _plot(
    id: str, title: str, unit: str, kind: str, series: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": id,
        "title": title,
        "unit": unit,
        "kind": kind,
        "series": series,
        "limits": [],
        "has_marks": False,
    }

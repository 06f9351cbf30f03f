"""Usage as plots. Pure but for what it reads."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from accounts.figures import Choice, Sums, UsageOverTime
from hosting.plots import Plot, line, plot

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
            dataclasses.asdict(one)
            for one in (
                _tokens(usage, split),
                _requests(sums),
                _cached(sums),
                _first_tokens(sums),
            )
        ],
    }


def _tokens(usage: UsageOverTime, split: Split) -> Plot:
    shown = split.largest[:_MOST_SERIES]
    found = usage.tokens(shown)
    lines = [
        line(split.names.get(name, name), found[name], tone) for tone, name in enumerate(shown, 1)
    ]
    if any(found[""]) and "" not in shown:
        lines.append(line("Others", found[""], _MOST_SERIES + 1))
    return plot(("tokens", "Tokens", "count", "bars"), *(lines or [line("Tokens", [], 1)]))


def _requests(sums: Sequence[Sums]) -> Plot:
    return plot(
        ("requests", "Requests", "count", "stack"),
        line("Answered", [one.requests - one.errors for one in sums], 1),
        line("Failed", [one.errors for one in sums], 5),
    )


def _cached(sums: Sequence[Sums]) -> Plot:
    return plot(
        ("cached", "Prompt tokens from the cache", "percent", "lines"),
        line("From the cache", [one.cached_percent for one in sums], 2),
    )


def _first_tokens(sums: Sequence[Sums]) -> Plot:
    return plot(
        ("ttft", "Time to the first token", "seconds", "lines"),
        line("Half of them", [one.ttft_p50 for one in sums], 1),
        line("95 of 100", [one.ttft_p95 for one in sums], 4),
    )

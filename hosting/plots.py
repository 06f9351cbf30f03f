"""A history as plots of named lines, in the one form that plots.js draws. How it looks, that knows.

A plot's `kind` is lines, stack (areas on top of each other) or bars (each slot's count). Its unit
says how numbers are written. `limits` are lines that should not be crossed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

Values = Sequence[float | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    label: str
    values: Values
    tone: int  # which of the theme's colours for data


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    id: str
    title: str
    unit: str
    kind: str
    series: Sequence[Series]
    limits: Sequence[Series] = ()
    has_marks: bool = False


Line = tuple[str, Values, int]  # a Series' label, values and tone


def plot(
    what: tuple[str, str, str, str],
    *lines: Line,
    limits: Sequence[Line] = (),
    has_marks: bool = False,
) -> Plot:
    """`what`: id, title, unit and kind."""
    id_, title, unit, kind = what
    return Plot(
        id=id_,
        title=title,
        unit=unit,
        kind=kind,
        series=[Series(label=label, values=values, tone=tone) for label, values, tone in lines],
        limits=[Series(label=label, values=values, tone=tone) for label, values, tone in limits],
        has_marks=has_marks,
    )

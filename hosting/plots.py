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
    highest: float | None = None  # where values are averages of slots: of what was averaged
    is_peak: bool = False  # values are the highest of their slots, and are not averaged further


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    id: str
    title: str
    unit: str
    kind: str
    series: Sequence[Series]
    limits: Sequence[Series] = ()
    has_marks: bool = False


def plot(
    what: tuple[str, str, str, str],
    *series: Series,
    limits: Sequence[Series] = (),
    has_marks: bool = False,
) -> Plot:
    """`what`: id, title, unit and kind."""
    id_, title, unit, kind = what
    return Plot(
        id=id_,
        title=title,
        unit=unit,
        kind=kind,
        series=series,
        limits=limits,
        has_marks=has_marks,
    )


def line(label: str, values: Values, tone: int) -> Series:
    return Series(label=label, values=values, tone=tone)

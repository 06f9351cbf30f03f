"""The history that an instrument page shows, as one JSON value: plots, figures, marks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from hosting.actions.history import WINDOWS, History, Window, history, known_engines
from hosting.actions.readings import Reading
from hosting.admin.cache_figures import cache_figures
from hosting.admin.memory_figures import memory_figures
from hosting.admin.notices import service_notice
from hosting.admin.plots import cache_plots, live_plots, memory_plots
from hosting.plots import Plot

SEE_REQUESTS = "hosting.view_generation"
SEE_MODELS = "hosting.view_hostedmodel"

_SIGNIFICANT = 6  # digits: more is neither true nor seen


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """A page of plots. `figures` are numbers of the whole window."""

    permission: str
    plots: Callable[[History, str], list[Plot]]
    figures: Callable[[History, str], dict[str, Any]] = lambda history, engine: {}


INSTRUMENTS = {
    "live": Instrument(permission=SEE_REQUESTS, plots=live_plots),
    "memory": Instrument(permission=SEE_REQUESTS, plots=memory_plots, figures=memory_figures),
    "cache": Instrument(permission=SEE_MODELS, plots=cache_plots, figures=cache_figures),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a page wants to see. Engine "" is the one heard last, model "" all of them."""

    instrument: str
    window: Window
    engine: str = ""
    model: str = ""


def asked_of(instrument: str, wishes: dict[str, Any]) -> Asked:
    """What is not understood is the default: a page never stays empty for an old address."""
    window = wishes.get("window")
    engine, model = (str(wishes.get(name) or "")[:100] for name in ("engine", "model"))
    return Asked(
        instrument=instrument,
        window=WINDOWS.get(window if isinstance(window, str) else "", WINDOWS["1h"]),
        engine=engine,
        model=model,
    )


def history_data(asked: Asked) -> dict[str, Any]:
    engines = known_engines()
    engine = asked.engine if asked.engine in engines else next(iter(engines), "")
    seen = history(engine, asked.window, time.time())
    instrument = INSTRUMENTS[asked.instrument]
    return {
        "notice": service_notice(),
        "window": asked.window.name,
        "during": asked.window.during,
        "step_seconds": seen.step_seconds,
        "times": seen.times,
        "engine": engine,
        "engines": engines,
        "model": asked.model,
        "models": models_of(seen),
        "plots": [_plain(plot) for plot in instrument.plots(seen, asked.model)],
        "marks": [mark for reading in _read(seen) for mark in reading.marks],
        "figures": instrument.figures(seen, engine),
    }


def models_of(seen: History) -> list[str]:
    """Those with figures of their own in the window."""
    names = {name for reading in _read(seen) for name in (*reading.gauges, *reading.counts)}
    return sorted({name.partition("@")[2] for name in names if "@" in name})


def _read(seen: History) -> list[Reading]:
    return [reading for reading in seen.readings if reading is not None]


def _plain(plot: Plot) -> dict[str, Any]:
    plain = dataclasses.asdict(plot)
    for series in (*plain["series"], *plain["limits"]):
        series["values"] = [_rounded(value) for value in series["values"]]
        series["highest"] = _rounded(series["highest"])
    return plain


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_SIGNIFICANT}g}")

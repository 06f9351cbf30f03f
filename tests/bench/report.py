"""What a benchmark found, as a table for people and as one line of JSON for machines.

It does not know how anything was measured.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]


class BenchmarkFailed(Exception):
    """The run cannot be counted: answers differ, or a side did not do the work it was given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure. `rival`: whom it is measured against. `bar`: the worst value good enough."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    rival: str | None = None
    bar: float | None = None

    @property
    def holds(self) -> bool:
        if self.bar is None:
            return True
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar

    def to_plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "rival": self.rival,
            "bar": self.bar,
            "better": self.better,
            "holds": self.holds,
        }


def milliseconds(
    name: str, seconds: float, *, bar: float | None = None, rival: str | None = None
) -> Result:
    """A time, the less the better; `bar` is in milliseconds."""
    value = 1000 * seconds
    return Result(name=name, value=value, unit="ms", better="lower", bar=bar, rival=rival)


def ratio(
    name: str,
    value: float,
    *,
    better: Literal["lower", "higher"] = "lower",
    bar: float | None = None,
    rival: str | None = None,
) -> Result:
    return Result(name=name, value=value, unit="ratio", better=better, bar=bar, rival=rival)


@dataclasses.dataclass(slots=True)
class Report:
    """What one benchmark found. `tables` are its own, ready to print, with the plain figures."""

    results: list[Result] = dataclasses.field(default_factory=list)
    tables: list[str] = dataclasses.field(default_factory=list)

    @property
    def to_print(self) -> list[Result]:
        """What the tables do not show."""
        if not self.tables:
            return self.results
        return [result for result in self.results if result.bar is not None]


def json_line(bench: str, results: Sequence[Result], machine: dict[str, Any]) -> str:
    plain = [result.to_plain() for result in results]
    return json.dumps({"bench": bench, "results": plain, "machine": machine})


def results_table(results: Sequence[Result]) -> str:
    rows = [
        [
            result.name,
            _figure(result.value),
            result.unit,
            result.rival or "",
            *_verdict(result),
        ]
        for result in results
    ]
    return text_table(["figure", "value", "unit", "rival", "bar", "holds"], rows)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns: fit for a terminal and for docs/benchmarks.md."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [header, ["-" * width for width in widths], *rows]
    padded = [
        [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def describe_machine() -> dict[str, Any]:
    """`load` and `busy_percent` say how quiet the machine was before the benchmark began."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "mlx": metadata.version("mlx"),
        "mlx_lm": metadata.version("mlx-lm"),
        "load": round(os.getloadavg()[0], 2),
        "busy_percent": psutil.cpu_percent(interval=1.0),
        "commit": _commit(),
    }


def _verdict(result: Result) -> tuple[str, str]:
    if result.bar is None:
        return "", ""
    sign = "≤" if result.better == "lower" else "≥"
    return f"{sign} {result.bar:g}", "yes" if result.holds else "NO"


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _cpu_name() -> str:
    if sys.platform == "darwin":
        return _output_of(["sysctl", "-n", "machdep.cpu.brand_string"])
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    commit = _output_of(["git", "rev-parse", "--short", "HEAD"])
    is_changed = bool(_output_of(["git", "status", "--porcelain", "--untracked-files=no"]))
    return f"{commit}+changes" if is_changed else commit


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()

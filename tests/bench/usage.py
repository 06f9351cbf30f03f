"""How long every page that reads usage takes with a large ledger, on SQLite and on PostgreSQL.

Each database is filled and measured by a process of its own (usage_pages.py), one after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from tests.bench.options import Options
from tests.bench.report import REPOSITORY, BenchmarkFailed, Report, milliseconds, text_table

_NO_POSTGRES = 3  # what .ci/with-postgres ends with


def run(options: Options) -> Report:
    report = Report()
    for database, prefix in (("SQLite", []), ("PostgreSQL", [".ci/with-postgres"])):
        found = _measure(prefix, options)
        if found is None:
            print(f"{database}: not there", file=sys.stderr)
            continue
        rows = [
            [one["name"], *(f"{1000 * one[column]:.0f}" for column in ("p50", "worst", "cpu"))]
            for one in found
        ]
        report.tables.append(text_table([database, "p50 ms", "worst ms", "CPU ms"], rows))
        report.results += [
            milliseconds(f"{database} {one['name']}", one["worst"], bar=one["bar_ms"])
            for one in found
        ]
    return report


def _measure(prefix: list[str], options: Options) -> list[dict[str, Any]] | None:
    command = [*prefix, sys.executable, "-m", "tests.bench.usage_pages", str(options.lines)]
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder:
        environment = {**os.environ, "HEARTH_DATA_DIR": folder}
        environment.pop("DATABASE_URL", None)  # never somebody's real database
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True
        )
    if done.returncode == _NO_POSTGRES:
        return None
    if done.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command)} ended with {done.returncode}")
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found

"""`python -m tests.bench NAME [--json]`: run one benchmark, or `all`, and print what was found.

Exit status 1 when the run cannot be counted. A bar that is missed is a finding, not a failure.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Sequence

from tests.bench.document import record
from tests.bench.options import Command, Options, parse_command
from tests.bench.report import (
    BenchmarkFailed,
    Report,
    describe_machine,
    json_line,
    results_table,
)

ALL = "all"
BENCHMARKS = (
    "throughput",
    "engine",
    "admission",
    "victim",
    "starvation",
    "mixing",
    "burst",
    "cancel",
    "spike",
    "fairness",
    "grammar",
    "hostile",
    "steptime",
    "decode",
    "cached",
    "hybrid",
    "reuse",
    "restore",
    "zerohit",
    "agent",
    "fleet",
    "routing",
    "probe",
    "faults",
    "usage",
    "estimate",
    "pressure",
    "refusal",
    "unload",
    "families",
)


def main(arguments: Sequence[str]) -> int:
    command = parse_command(arguments, benchmarks=(*BENCHMARKS, ALL))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that every `with` block ends
    names = BENCHMARKS if command.bench == ALL else (command.bench,)
    return max([_run(name, command) for name in names])


def _run(name: str, command: Command) -> int:
    machine = describe_machine()  # before the benchmark itself is the load
    print(name, file=sys.stderr)
    try:
        report = find_benchmark(name)(command.options)
    except BenchmarkFailed as failure:
        print(f"\n{name} cannot be counted: {failure}", file=sys.stderr)
        return 1
    print("", file=sys.stderr)
    tables = [*report.tables, results_table(report.to_print)]
    print(*tables, sep="\n\n", flush=True)
    if command.document is not None:
        record(command.document, name, tables, machine)
    if command.is_json:
        print(json_line(name, report.results, machine), flush=True)
    return 0


def find_benchmark(name: str) -> Callable[[Options], Report]:
    run: Callable[[Options], Report] = importlib.import_module(f"tests.bench.{name}").run
    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

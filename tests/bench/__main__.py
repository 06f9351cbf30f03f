"""`python -m tests.bench NAME [--json]`: run one benchmark and print what it found.

Exit status 1 when the run cannot be counted. A bar that is missed is a finding, not a failure.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Sequence

from tests.bench.options import Options, parse_command
from tests.bench.report import (
    BenchmarkFailed,
    Report,
    describe_machine,
    json_line,
    results_table,
)

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
    "steptime",
    "decode",
    "cached",
    "hybrid",
    "restore",
    "zerohit",
    "agent",
    "probe",
)


def main(arguments: Sequence[str]) -> int:
    command = parse_command(arguments, benchmarks=BENCHMARKS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that every `with` block ends
    machine = describe_machine()  # before the benchmark itself is the load
    try:
        report = find_benchmark(command.bench)(command.options)
    except BenchmarkFailed as failure:
        print(f"\n{command.bench} cannot be counted: {failure}", file=sys.stderr)
        return 1
    print("", file=sys.stderr)
    print(*report.tables, results_table(report.to_print), sep="\n\n")
    if command.is_json:
        print(json_line(command.bench, report.results, machine))
    return 0


def find_benchmark(name: str) -> Callable[[Options], Report]:
    run: Callable[[Options], Report] = importlib.import_module(f"tests.bench.{name}").run
    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

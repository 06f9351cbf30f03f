"""What a run of a benchmark can be told; None and empty mean the benchmark's own choice."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`seconds` is when rounds stop being added; starting and stopping come on top."""

    models: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    lengths: tuple[str, ...] = ()
    rounds: int | None = None
    seconds: float = 220.0
    lines: int = 10_000_000
    requests: int = 2000
    seed: int = 7


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    bench: str
    is_json: bool
    document: Path | None
    options: Options


def parse_command(arguments: Sequence[str], *, benchmarks: Sequence[str]) -> Command:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("bench", choices=benchmarks, metavar="NAME", help=", ".join(benchmarks))
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the tables in this file")
    parser.add_argument("--models", type=_names, default=(), help="tiny,small")
    parser.add_argument("--streams", type=_numbers, default=(), help="such as 1,8,16,32")
    parser.add_argument("--temperatures", type=_floats, default=(), help="such as 0,0.8")
    parser.add_argument("--lengths", type=_names, default=(), help="equal,unequal")
    parser.add_argument("--rounds", type=int, help="at most so many of each measurement")
    parser.add_argument("--seconds", type=float, default=Options().seconds)
    parser.add_argument("--lines", type=int, default=Options().lines, help="of the ledger")
    parser.add_argument("--requests", type=int, default=Options().requests)
    parser.add_argument("--seed", type=int, default=Options().seed)
    told = parser.parse_args(arguments)
    options = Options(
        models=told.models,
        streams=told.streams,
        temperatures=told.temperatures,
        lengths=told.lengths,
        rounds=told.rounds,
        seconds=told.seconds,
        lines=told.lines,
        requests=told.requests,
        seed=told.seed,
    )
    return Command(bench=told.bench, is_json=told.json, document=told.write, options=options)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))

"""Eight rows, some of them held to grammars, against eight free rows of the same engine.

Valid: how many of the held answers fit. Unchanged: how many free rows draw what they draw alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jsonschema import Draft202012Validator

from tests.bench.grammar_rows import NUM_ROWS
from tests.bench.models import model_path
from tests.bench.options import Options
from tests.bench.processes import JobChild
from tests.bench.report import BenchmarkFailed, Report, Result, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

ANSWER_TOKENS = 96
VALID_TOKENS = 256  # a random model fills its JSON with spaces
SPEED_BAR = 0.85
# Longer than the answers that are timed, so that all rows decode equally long
ENDLESS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["name", "size"],
        "additionalProperties": False,
    },
    "minItems": 1_000,
}
SHORT = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["good", "bad"]},
        "marks": {"type": "array", "items": {"enum": [1, 2, 3]}, "maxItems": 4},
    },
    "required": ["verdict", "marks"],
    "additionalProperties": False,
}
SIDES = {"free": 0, "mixed": NUM_ROWS // 2, "held": NUM_ROWS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Of one run of eight rows: texts and tokens by row, and how fast they came."""

    texts: list[str]
    tokens: list[list[int]]
    seconds: float
    cpu_seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens a second of the clock, and of the process's own time on all cores."""

    by_clock: float
    by_cpu: float


def run(options: Options) -> Report:
    models = options.models or ("small",)
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with _rows(model) as ask:
            report.results += _correctness(model, ask)
            speeds = interleave(
                {side: _timing(ask, held) for side, held in SIDES.items()},
                rounds=options.rounds or 6,
                deadline=budget.next_deadline(),
            )
        report.results += _speeds(model, speeds)
    return report


@contextlib.contextmanager
def _rows(model: str) -> Iterator[Callable[..., Answers]]:
    path = model_path(model)
    command = [sys.executable, "-m", "tests.bench.grammar_rows", str(path)]
    with (
        tempfile.TemporaryDirectory(prefix="hearth-bench-logs-") as logs,
        JobChild(command, log=Path(logs) / "grammar_rows.log") as child,
    ):
        yield lambda number, **job: Answers(**child.do({"number": number, **job}))


def _timing(ask: Callable[..., Answers], num_held: int) -> Callable[[int], Speed]:
    def measure(number: int) -> Speed:
        answers = ask(number, held=num_held, schema=ENDLESS, max_tokens=ANSWER_TOKENS)
        if {len(tokens) for tokens in answers.tokens} != {ANSWER_TOKENS}:
            raise BenchmarkFailed("a row ended before the others")
        num_tokens = NUM_ROWS * ANSWER_TOKENS
        return Speed(by_clock=num_tokens / answers.seconds, by_cpu=num_tokens / answers.cpu_seconds)

    return measure


def _correctness(model: str, ask: Callable[..., Answers]) -> list[Result]:
    half = NUM_ROWS // 2
    free = ask(0, held=0, schema=SHORT, max_tokens=VALID_TOKENS)
    mixed = ask(0, held=half, schema=SHORT, max_tokens=VALID_TOKENS)
    num_valid = sum(map(_is_valid, mixed.texts[:half]))
    num_same = sum(
        one == other for one, other in zip(free.tokens[half:], mixed.tokens[half:], strict=True)
    )
    return [
        ratio(f"{model}.valid", num_valid / half, better="higher", bar=1.0),
        ratio(f"{model}.unchanged", num_same / half, better="higher", bar=1.0),
    ]


def _is_valid(text: str) -> bool:
    try:
        return bool(Draft202012Validator(SHORT).is_valid(json.loads(text)))
    except ValueError:
        return False


def _speeds(model: str, speeds: dict[str, list[Speed]]) -> list[Result]:
    absolute = [
        Result(
            name=f"{model}.{side}.tokens_per_second",
            value=median([one.by_clock for one in samples]),
            unit="tok/s",
            better="higher",
        )
        for side, samples in speeds.items()
    ]
    over_free = []
    for side in ("mixed", "held"):
        by_clock = _over(speeds[side], speeds["free"], lambda one: one.by_clock)
        by_cpu = _over(speeds[side], speeds["free"], lambda one: one.by_cpu)
        over_free += [
            ratio(f"{model}.{side}_over_free", by_clock, better="higher", bar=SPEED_BAR),
            ratio(f"{model}.{side}_over_free_by_cpu", by_cpu, better="higher"),
        ]
    return [*absolute, *over_free]


def _over(side: list[Speed], free: list[Speed], of: Callable[[Speed], float]) -> float:
    return median_ratio(list(map(of, side)), list(map(of, free)))

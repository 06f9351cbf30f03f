"""Eight rows, some of them held to grammars, against eight free rows of the same engine.

Valid: how many of the held answers fit. Unchanged: how many free rows draw what they draw alone.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from engine import wire
from tests.bench.contestants import MODELS
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio
from tests.engine.model.rig import Run, make_handle
from tests.fakes import make_work

NUM_ROWS = 8
PROMPT_TOKENS = 64
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
    tokens_per_second: float


def run(options: Options) -> Report:
    models = options.models or ("small",)
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        ask = _asking(MODELS[model])
        report.results += _correctness(model, ask)
        speeds = interleave(
            {side: _timing(ask, held) for side, held in SIDES.items()},
            rounds=options.rounds or 6,
            deadline=budget.next_deadline(),
        )
        report.results += _speeds(model, speeds)
    return report


def _asking(model_name: str) -> Callable[..., Answers]:
    handle = make_handle(model_name, max_rows=NUM_ROWS)

    def ask(number: int, *, num_held: int, schema: dict[str, Any], max_tokens: int) -> Answers:
        rows = Run(handle)
        for row in range(NUM_ROWS):
            is_held = row < num_held
            rows.add(_work(number, row, schema if is_held else None, max_tokens))
        started_at = time.perf_counter()
        rows.finish()
        seconds = time.perf_counter() - started_at
        tokens = [rows.tokens(str(row)) for row in range(NUM_ROWS)]
        return Answers(
            texts=[_text(rows, str(row)) for row in range(NUM_ROWS)],
            tokens=tokens,
            tokens_per_second=sum(map(len, tokens)) / seconds,
        )

    return ask


def _work(number: int, row: int, schema: dict[str, Any] | None, max_tokens: int) -> wire.Work:
    start = 50 + 8 * number + row
    grammar = schema and wire.Grammar(
        kind=wire.GrammarKind.JSON_SCHEMA, param="schema", source=json.dumps(schema)
    )
    return make_work(
        str(row),
        prompt=range(start, start + PROMPT_TOKENS),
        max_tokens=max_tokens,
        sampling=wire.Sampling(seed=row, temperature=0.8),
        grammar=grammar or None,
        has_thought=True,
    )


def _text(rows: Run, request_id: str) -> str:
    deltas = (one for one in rows.events[request_id] if isinstance(one, wire.Delta))
    return "".join(delta.text for delta in deltas)


def _timing(ask: Callable[..., Answers], num_held: int) -> Callable[[int], float]:
    def measure(number: int) -> float:
        answers = ask(number, num_held=num_held, schema=ENDLESS, max_tokens=ANSWER_TOKENS)
        if {len(tokens) for tokens in answers.tokens} != {ANSWER_TOKENS}:
            raise BenchmarkFailed("a row ended before the others")
        return answers.tokens_per_second

    return measure


def _correctness(model: str, ask: Callable[..., Answers]) -> list[Result]:
    half = NUM_ROWS // 2
    free = ask(0, num_held=0, schema=SHORT, max_tokens=VALID_TOKENS)
    mixed = ask(0, num_held=half, schema=SHORT, max_tokens=VALID_TOKENS)
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


def _speeds(model: str, speeds: dict[str, list[float]]) -> list[Result]:
    absolute = [
        Result(
            name=f"{model}.{side}.tokens_per_second",
            value=median(samples),
            unit="tok/s",
            better="higher",
        )
        for side, samples in speeds.items()
    ]
    over_free = [
        ratio(
            f"{model}.{side}_over_free",
            median_ratio(speeds[side], speeds["free"]),
            better="higher",
            bar=SPEED_BAR,
        )
        for side in ("mixed", "held")
    ]
    return [*absolute, *over_free]

"""The engines alone: our loop in process, text included, against BatchGenerator in process.

At a temperature BatchGenerator is measured twice: with a sampler for each request, as a service
must whose users choose their own, which is the rival; and with one for all, its best case.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.exchange import Question
from tests.bench.load import Load
from tests.bench.models import USUAL, model_path
from tests.bench.names import BATCH_GENERATOR, HEARTH
from tests.bench.options import Options
from tests.bench.prompts import PromptMaker
from tests.bench.report import Report, Result, ratio
from tests.bench.rivals import InProcess, batch_generator, engine_loop
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

SHARED_SAMPLER = "BatchGenerator, shared sampler"
PROMPT_TOKENS = 88
MAX_TOKENS = {"tiny": 96, "small": 48}
QUESTIONS_PER_STREAM = 2
TEMPERATURES = (0.0, 0.8)
LENGTHS = ("equal", "unequal")
# (model, rows, temperature): the ratio that must be reached; elsewhere DEFAULT_BAR.
BARS = {("tiny", 16, 0.0): 1.15, ("tiny", 16, 0.8): 1.5}
DEFAULT_BAR = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One measurement. With "equal" lengths all rows end together, which suits BatchGenerator."""

    model: str
    rows: int
    temperature: float
    lengths: str

    @property
    def name(self) -> str:
        return f"{self.model}-{self.rows}-t{self.temperature:g}-{self.lengths}"

    @property
    def bar(self) -> float:
        return BARS.get((self.model, self.rows, self.temperature), DEFAULT_BAR)

    def max_tokens(self, chooser: random.Random) -> int:
        most = MAX_TOKENS[self.model]
        return most if self.lengths == "equal" else chooser.randint(most // 2, most + most // 2)


def run(options: Options) -> Report:
    cells = [
        Cell(model=model, rows=rows, temperature=temperature, lengths=lengths)
        for model in options.models or USUAL
        for rows in options.streams or (8, 16, 32)
        for temperature in options.temperatures or TEMPERATURES
        for lengths in options.lengths or LENGTHS
    ]
    budget = Budget(options.seconds, num_parts=len(cells))
    report = Report()
    for model in dict.fromkeys(cell.model for cell in cells):
        with _engines(model) as (loop, generator, prompts):
            for cell in (cell for cell in cells if cell.model == model):
                sides = _sides(cell, loop, generator, prompts)
                for side in sides.values():
                    side(-1)  # every batch width is met once before it counts
                rounds, deadline = options.rounds or 4, budget.next_deadline()
                report.results += _results(
                    cell, interleave(sides, rounds=rounds, deadline=deadline)
                )
    return report


@contextlib.contextmanager
def _engines(model: str) -> Iterator[tuple[InProcess, InProcess, PromptMaker]]:
    path = model_path(model)
    with (
        tempfile.TemporaryDirectory() as logs,
        engine_loop(path, Path(logs)) as loop,
        batch_generator(path, Path(logs)) as generator,
    ):
        yield loop, generator, PromptMaker(path)


def _sides(
    cell: Cell, loop: InProcess, generator: InProcess, prompts: PromptMaker
) -> dict[str, Callable[[int], Load]]:
    def streams(number: int) -> list[list[Question]]:
        chooser = random.Random(f"{cell.name} {number}")
        return [
            [
                Question(
                    prompt=prompts.prompt(
                        f"{cell.name} {number} {row} {place}", tokens=PROMPT_TOKENS
                    ),
                    max_tokens=cell.max_tokens(chooser),
                    temperature=cell.temperature,
                )
                for place in range(QUESTIONS_PER_STREAM)
            ]
            for row in range(cell.rows)
        ]

    sides = {
        HEARTH: lambda number: loop.run_load(streams(number)),
        BATCH_GENERATOR: lambda number: generator.run_load(streams(number)),
    }
    if cell.temperature > 0:
        sides[SHARED_SAMPLER] = lambda number: generator.run_load(
            streams(number), shares_sampler=True
        )
    return sides


def _results(cell: Cell, loads: dict[str, list[Load]]) -> list[Result]:
    speeds = {name: [load.tokens_per_second for load in side] for name, side in loads.items()}
    absolute = [
        Result(
            name=f"{cell.name}.tokens_per_second.{name}",
            value=median(speeds[name]),
            unit="tok/s",
            better="higher",
        )
        for name in speeds
    ]
    ratios = [
        ratio(
            f"{cell.name}.tokens_per_second_over_{rival}",
            median_ratio(speeds[HEARTH], speeds[rival]),
            better="higher",
            bar=cell.bar if rival == BATCH_GENERATOR else None,
            rival=rival,
        )
        for rival in speeds
        if rival != HEARTH
    ]
    return [*absolute, *ratios]

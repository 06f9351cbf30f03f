"""Aggregate tokens per second, TTFT and gaps of the whole service under closed-loop load.

Rivals: mlx_lm.server under the same load, and BatchGenerator in process as the limit of the field.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Literal

from tests.bench.calibration import calibrate_client
from tests.bench.contestants import Contestants, check_equal_answers, contestants, is_same_text
from tests.bench.exchange import Question
from tests.bench.load import Load, run_load
from tests.bench.models import USUAL
from tests.bench.names import BATCH_GENERATOR, HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, text_table
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

PROMPT_TOKENS = 88
WARM_UP_TOKENS = 16
STREAMS = (1, 8, 16, 32)
TEMPERATURES = (0.0, 0.8)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much a round asks of a model: `questions` for each stream, by the number of streams.
    `equal_share`: how far answers alone must be the same; numbers of 16 bits break ties apart."""

    max_tokens: int
    questions: dict[int, int]
    bar_over_server: float
    bar_over_generator: float | None = None
    equal_share: float = 1.0
    settings: dict[str, str] = dataclasses.field(default_factory=dict)

    def questions_per_stream(self, streams: int) -> int:
        return self.questions.get(streams, 2)


SHAPES = {
    "tiny": Shape(max_tokens=128, questions={1: 6, 8: 3}, bar_over_server=1.5),
    "small": Shape(max_tokens=64, questions={1: 3}, bar_over_server=1.2, bar_over_generator=0.95),
    "large": Shape(
        max_tokens=256,
        questions={},
        bar_over_server=1.2,
        bar_over_generator=0.95,
        equal_share=0.1,
        settings={"HEARTH_MEMORY_LIMIT_GB": "32"},  # all sides are on one device of 80 GB
    ),
}
MIN_STREAMS_WITH_BAR = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a Load, and how the table calls it."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    of: Callable[[Load], float]


FIGURES = (
    Figure(
        name="tokens_per_second",
        unit="tok/s",
        better="higher",
        of=lambda load: load.tokens_per_second,
    ),
    Figure(name="ttft_p50", unit="ms", better="lower", of=lambda load: load.ttft_ms(0.5)),
    Figure(name="ttft_p95", unit="ms", better="lower", of=lambda load: load.ttft_ms(0.95)),
    Figure(name="gap_p50", unit="ms", better="lower", of=lambda load: load.gap_ms(0.5)),
    Figure(name="gap_p95", unit="ms", better="lower", of=lambda load: load.gap_ms(0.95)),
)
RIVALS = (MLX_LM_SERVER, BATCH_GENERATOR)


def run(options: Options) -> Report:
    models, streams = options.models or USUAL, options.streams or STREAMS
    cells = list(itertools.product(streams, options.temperatures or TEMPERATURES))
    budget = Budget(options.seconds, num_parts=len(models) * len(cells))
    report = Report(results=[calibrate_client()])
    for model in models:
        shape = SHAPES[model]
        with contestants(model, fields={"max_rows": max(streams)}, **shape.settings) as sides:
            checked = check_equal_answers(model, sides, least_share=shape.equal_share)
            report.results.append(checked)
            for number, temperature in cells:
                cell = Cell(model, number, sides, temperature)
                loads = cell.measure(rounds=options.rounds or 4, deadline=budget.next_deadline())
                report.results += results_of(cell.name, loads, bars_of(model, number))
                if temperature == 0:
                    report.results.append(share_of_equal_answers(cell.name, loads))
                report.tables.append(table_of(cell.name, loads))
    return report


class Cell:
    """One model at one number of streams."""

    def __init__(self, model: str, streams: int, sides: Contestants, temperature: float) -> None:
        self.name = f"{model}-{streams}" + (f"-t{temperature:g}" if temperature else "")
        self._shape = SHAPES[model]
        self._streams = streams
        self._sides = sides
        self._temperature = temperature

    def measure(self, *, rounds: int, deadline: float) -> dict[str, list[Load]]:
        self._warm_up()
        return interleave(
            {
                HEARTH: lambda number: run_load(self._sides.ours, self._questions(number)),
                MLX_LM_SERVER: lambda number: run_load(self._sides.server, self._questions(number)),
                BATCH_GENERATOR: lambda number: self._sides.generator.run_load(
                    self._questions(number)
                ),
            },
            rounds=rounds,
            deadline=deadline,
        )

    def _warm_up(self) -> None:
        """Every batch width is met once before it counts."""
        questions = [
            [dataclasses.replace(stream[0], max_tokens=WARM_UP_TOKENS)]
            for stream in self._questions(-1)
        ]
        for target in self._sides.targets:
            run_load(target, questions)
        self._sides.generator.run_load(questions)

    def _questions(self, number: int) -> list[list[Question]]:
        """The same for all sides in one round, and new in every round: no cache can help."""
        return [
            [
                Question(
                    prompt=self._sides.prompts.prompt(
                        f"{self.name} {number} {stream} {place}", tokens=PROMPT_TOKENS
                    ),
                    max_tokens=self._shape.max_tokens,
                    temperature=self._temperature,
                )
                for place in range(self._shape.questions_per_stream(self._streams))
            ]
            for stream in range(self._streams)
        ]


def bars_of(model: str, streams: int) -> dict[str, float | None]:
    """The least ratio of tokens per second, for each rival."""
    if streams < MIN_STREAMS_WITH_BAR:
        return {}
    shape = SHAPES[model]
    return {MLX_LM_SERVER: shape.bar_over_server, BATCH_GENERATOR: shape.bar_over_generator}


def results_of(
    cell: str, loads: dict[str, list[Load]], bars: dict[str, float | None]
) -> list[Result]:
    absolute = [
        Result(
            name=f"{cell}.{figure.name}.{side}",
            value=median([figure.of(load) for load in loads[side]]),
            unit=figure.unit,
            better=figure.better,
        )
        for side in loads
        for figure in FIGURES
    ]
    ratios = [
        Result(
            name=f"{cell}.{figure.name}_over_{rival}",
            value=ratio_of(figure, loads[HEARTH], loads[rival]),
            unit="ratio",
            rival=rival,
            bar=bars.get(rival) if figure is FIGURES[0] else None,
            better=figure.better,
        )
        for rival in RIVALS
        for figure in FIGURES
    ]
    return [*absolute, *ratios]


def table_of(cell: str, loads: dict[str, list[Load]]) -> str:
    rows = [
        [name, *(f"{median([figure.of(load) for load in side]):.1f}" for figure in FIGURES)]
        for name, side in loads.items()
    ]
    rows += [
        [
            f"{HEARTH} / {rival}",
            *(f"{ratio_of(figure, loads[HEARTH], loads[rival]):.2f}" for figure in FIGURES),
        ]
        for rival in RIVALS
    ]
    header = [f"{figure.name} ({figure.unit})" for figure in FIGURES]
    return text_table([f"{cell}, {len(loads[HEARTH])} rounds", *header], rows)


def share_of_equal_answers(cell: str, loads: dict[str, list[Load]]) -> Result:
    """Of the greedy answers of all rounds. A tie broken otherwise in another batch shows here."""
    pairs = [
        is_same_text(own, other)
        for ours, rival in zip(loads[HEARTH], loads[MLX_LM_SERVER], strict=True)
        for own, other in zip(ours.texts, rival.texts, strict=True)
    ]
    return Result(
        name=f"{cell}.equal_answers",
        value=sum(pairs) / len(pairs),
        unit="share",
        rival=MLX_LM_SERVER,
        better="higher",
    )


def ratio_of(figure: Figure, ours: Sequence[Load], rivals: Sequence[Load]) -> float:
    return median_ratio([figure.of(load) for load in ours], [figure.of(load) for load in rivals])

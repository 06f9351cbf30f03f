"""Two people, one of them with ten times the load: what the other one notices, and what it costs.

Rival: mlx_lm.server, which does not know people and serves whoever came first.

Answers are of unequal length, as people's are, but as long for one person as for two. Equal ones
end together or do not, by chance, and stay so: one and the same load was then served at 0.76 or at
1.26 times the speed of another run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Sequence

from tests.bench.answers import Answer, read_answer
from tests.bench.background import busy_streams
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, check_answer, quiet_collector, run_streams
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import flat, jain_index, median, percentile

NUM_ROWS = 4
LOAD_FACTOR = 10
COMPETING_STREAMS = 6  # of the light load: with a fair half of the rows some always wait
PROBES_PER_ROUND = 10
PAUSE_SECONDS = (0.05, 0.25)
PROMPT_TOKENS = 40
ANSWER_TOKENS = {"tiny": (12, 36), "small": (6, 18)}  # at least, at most
TTFT_BAR, JAIN_BAR, THROUGHPUT_BAR = 1.5, 0.98, 0.97

Ask = Callable[[str], Question]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A service as two people see it."""

    heavy: Target
    light: Target


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`ttfts` in seconds, of the light load; speeds in tokens per second."""

    ttfts_alone: tuple[float, ...]
    ttfts_beside: tuple[float, ...]
    jain: float
    speed_of_two: float
    speed_of_one: float


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    rows = options.streams[0] if options.streams else NUM_ROWS
    budget = Budget(options.seconds, num_parts=len(models))
    concurrency = ("--decode-concurrency", str(rows))
    report = Report()
    for model in models:
        with contestants(model, fields={"max_rows": rows}, server_options=concurrency) as sides:
            light = sides.service.for_another_person(sides.ours)
            measured = {
                HEARTH: Side(heavy=sides.ours, light=light),
                sides.server.name: Side(heavy=sides.server, light=sides.server),
            }
            samples = interleave(
                {name: _measuring(sides, side, model) for name, side in measured.items()},
                rounds=options.rounds or 4,
                deadline=budget.next_deadline(),
            )
            for name, rounds in samples.items():
                report.results += _results(f"{model}-{rows}", name, rounds)
    return report


def _measuring(sides: Contestants, side: Side, model: str) -> Callable[[int], Sample]:
    def measure(number: int) -> Sample:
        def ask(label: str) -> Question:
            name, (_, which) = f"{model} fairness {number}", label.split(" ", 1)
            prompt = sides.prompts.prompt(f"{name} {label}", tokens=PROMPT_TOKENS)
            chooser = random.Random(f"{name} {which}")
            return Question(prompt=prompt, max_tokens=chooser.randint(*ANSWER_TOKENS[model]))

        with quiet_collector():
            return asyncio.run(_measure(side, ask))

    return measure


async def _measure(side: Side, ask: Ask) -> Sample:
    alone = await _probe(side.light, ask, "alone")
    async with busy_streams(side.heavy, ask, count=LOAD_FACTOR):
        beside = await _probe(side.light, ask, "beside")
    light, heavy = await _compete(side, ask, "two")
    one = await _compete(Side(heavy=side.heavy, light=side.heavy), ask, "one")
    return Sample(
        ttfts_alone=alone,
        ttfts_beside=beside,
        jain=jain_index(_service_while_both_wait(light, heavy)),
        speed_of_two=_speed([*light, *heavy]),
        speed_of_one=_speed([*one[0], *one[1]]),
    )


async def _probe(target: Target, ask: Ask, label: str) -> tuple[float, ...]:
    """TTFTs of one stream's questions, with pauses in between."""
    chooser, ttfts = random.Random(label), []
    for number in range(PROBES_PER_ROUND):
        await asyncio.sleep(chooser.uniform(*PAUSE_SECONDS))
        answer = await ask_among_others(target, ask(f"{label} {number}"))
        ttfts.append(answer.ttft)
    return tuple(ttfts)


async def _compete(side: Side, ask: Ask, label: str) -> tuple[list[Answer], list[Answer]]:
    """Both want the same in all; the heavy load wants it ten times as fast."""
    return await asyncio.gather(
        _answers(side.light, ask, f"{label} light", streams=COMPETING_STREAMS, each=LOAD_FACTOR),
        _answers(
            side.heavy, ask, f"{label} heavy", streams=COMPETING_STREAMS * LOAD_FACTOR, each=1
        ),
    )


async def _answers(
    target: Target, ask: Ask, label: str, *, streams: int, each: int
) -> list[Answer]:
    questions = [
        [ask(f"{label} {stream} {place}") for place in range(each)] for stream in range(streams)
    ]
    answers = [read_answer(recording) for recording in await run_streams(target, questions)]
    asked = [question for stream in questions for question in stream]
    for answer, question in zip(answers, asked, strict=True):
        check_answer(target, answer, question)
    return answers


def _service_while_both_wait(light: Sequence[Answer], heavy: Sequence[Answer]) -> list[float]:
    """Tokens for each, from the moment both have rows until one of them has none waiting."""
    start = max(min(answer.text_at[0] for answer in side) for side in (light, heavy))
    stop = min(max(answer.text_at[0] for answer in side) for side in (light, heavy))
    return [sum(_tokens_within(answer, start, stop) for answer in side) for side in (light, heavy)]


def _tokens_within(answer: Answer, start: float, stop: float) -> float:
    """The prompt counts when the first text comes; the answer as it arrives."""
    prompt = answer.prompt_tokens if start <= answer.text_at[0] <= stop else 0
    share = sum(start <= at <= stop for at in answer.text_at) / len(answer.text_at)
    return prompt + share * answer.completion_tokens


def _speed(answers: Sequence[Answer]) -> float:
    seconds = max(one.ended_at for one in answers) - min(one.started_at for one in answers)
    return sum(one.completion_tokens for one in answers) / seconds


def _results(cell: str, name: str, samples: list[Sample]) -> list[Result]:
    """The bars are ours to hold; the rival's figures stand beside them."""

    def bar(value: float) -> float | None:
        return value if name == HEARTH else None

    alone = percentile(flat(sample.ttfts_alone for sample in samples), 0.95)
    beside = percentile(flat(sample.ttfts_beside for sample in samples), 0.95)
    jain = median([sample.jain for sample in samples])
    kept = median([sample.speed_of_two / sample.speed_of_one for sample in samples])
    return [
        milliseconds(f"{cell}.light_ttft_p95_alone.{name}", alone),
        ratio(f"{cell}.light_ttft_p95_over_alone.{name}", beside / alone, bar=bar(TTFT_BAR)),
        ratio(f"{cell}.jain_index.{name}", jain, better="higher", bar=bar(JAIN_BAR)),
        ratio(
            f"{cell}.throughput_over_one_person.{name}",
            kept,
            better="higher",
            bar=bar(THROUGHPUT_BAR),
        ),
    ]

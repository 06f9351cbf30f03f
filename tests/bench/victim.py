"""A running stream while somebody else's long prompt is read, and that prompt's own TTFT.

Measured at the balanced pace, which shares the time, and at the throughput pace, which puts the
prompt first. Rival: mlx_lm.server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Callable

from tests.bench.answers import read_answer
from tests.bench.background import ENDLESS_TOKENS, running_streams
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

LONG_TOKENS = 6_000
SOLO_SECONDS = 1.5
BALANCED, THROUGHPUT = "balanced", "throughput"
STALL_MS = 250  # of the balanced pace
MAX_GAP_OVER_STALL = 1.3
MAX_GAP_OVER_BASE = 3.0
KEPT_SPEED_BAR = 0.45
LONG_TTFT_BARS = {BALANCED: 2.2, THROUGHPUT: 1.1}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds and ratios of one round on one side."""

    base_gap: float
    max_gap: float
    kept_speed: float  # arrivals per second beside the long prompt / alone
    long_ttft: float
    long_ttft_alone: float


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    budget = Budget(options.seconds, num_parts=2 * len(models))
    report = Report()
    for model in models:
        with contestants(model) as sides:
            for pace in (BALANCED, THROUGHPUT):
                sides.service.set_fields(model, pace=pace)
                samples = interleave(
                    {
                        target.name: _measuring(sides, target, f"{model} {pace}")
                        for target in sides.targets
                    },
                    rounds=options.rounds or 4,
                    deadline=budget.next_deadline(),
                )
                report.results += _results(f"{model}-{pace}", pace, samples)
    return report


def _measuring(sides: Contestants, target: Target, cell: str) -> Callable[[int], Sample]:
    def question(label: str, *, tokens: int, max_tokens: int) -> Question:
        prompt = sides.prompts.prompt(f"{cell} {label}", tokens=tokens)
        return Question(prompt=prompt, max_tokens=max_tokens)

    def measure(number: int) -> Sample:
        stream = question(f"stream {number}", tokens=40, max_tokens=ENDLESS_TOKENS)
        alone = question(f"alone {number}", tokens=LONG_TOKENS, max_tokens=4)
        beside = question(f"beside {number}", tokens=LONG_TOKENS, max_tokens=4)
        with quiet_collector():
            return asyncio.run(_measure(target, stream, alone, beside))

    return measure


async def _measure(target: Target, stream: Question, alone: Question, beside: Question) -> Sample:
    long_alone = await ask_among_others(target, alone)
    async with running_streams(target, [stream]) as (victim,):
        await asyncio.sleep(SOLO_SECONDS)
        long = await ask_among_others(target, beside)
    times = read_answer(victim.recording).text_at
    asked_at, first_text_at = long.started_at, long.text_at[0]
    solo = [at for at in times if asked_at - SOLO_SECONDS <= at < asked_at]
    # The gap in which the prompt was asked or answered counts too: it began or ended beside it.
    gaps = [
        later - earlier
        for earlier, later in itertools.pairwise(times)
        if later > asked_at and earlier < first_text_at
    ]
    num_beside = sum(asked_at <= at < first_text_at for at in times)
    return Sample(
        base_gap=median([later - earlier for earlier, later in itertools.pairwise(solo)]),
        max_gap=max(gaps),
        kept_speed=(num_beside / long.ttft) / (len(solo) / SOLO_SECONDS),
        long_ttft=long.ttft,
        long_ttft_alone=long_alone.ttft,
    )


def _results(cell: str, pace: str, samples: dict[str, list[Sample]]) -> list[Result]:
    max_gap_ratio = median_ratio(
        [sample.max_gap for sample in samples[HEARTH]],
        [sample.max_gap for sample in samples[MLX_LM_SERVER]],
    )
    return [
        *(result for name in samples for result in _side(cell, pace, name, samples[name])),
        ratio(f"{cell}.max_gap_over_{MLX_LM_SERVER}", max_gap_ratio, rival=MLX_LM_SERVER),
    ]


def _side(cell: str, pace: str, name: str, samples: list[Sample]) -> list[Result]:
    """The bars are ours to hold; the rival's figures stand beside them."""

    def middle(field: Callable[[Sample], float]) -> float:
        return median([field(sample) for sample in samples])

    is_ours, is_balanced = name == HEARTH, pace == BALANCED
    base = middle(lambda sample: sample.base_gap)
    max_gap_bar = max(MAX_GAP_OVER_STALL * STALL_MS, MAX_GAP_OVER_BASE * 1000 * base)
    max_gap = middle(lambda sample: sample.max_gap)
    kept = middle(lambda sample: sample.kept_speed)
    alone = middle(lambda sample: sample.long_ttft_alone)
    over_alone = middle(lambda sample: sample.long_ttft / sample.long_ttft_alone)
    gap_bar = max_gap_bar if is_ours and is_balanced else None
    kept_bar = KEPT_SPEED_BAR if is_ours and is_balanced else None
    ttft_bar = LONG_TTFT_BARS[pace] if is_ours else None
    return [
        milliseconds(f"{cell}.base_gap.{name}", base),
        milliseconds(f"{cell}.max_gap.{name}", max_gap, bar=gap_bar),
        ratio(f"{cell}.kept_speed.{name}", kept, better="higher", bar=kept_bar),
        milliseconds(f"{cell}.long_ttft_alone.{name}", alone),
        ratio(f"{cell}.long_ttft_over_alone.{name}", over_alone, bar=ttft_bar),
    ]

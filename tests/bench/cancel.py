"""From hanging up to the first text of the request that waited for the row.

Every side gets a single row. The figure is an upper bound: the waiting request's own prompt and
first step are in it. Rival: mlx_lm.server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from itertools import pairwise

from tests.bench.answers import read_answer
from tests.bench.background import ENDLESS_TOKENS
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Exchange, Question, Target, open_exchange
from tests.bench.load import (
    ANSWER_TIMEOUT_SECONDS,
    check_answer,
    quiet_collector,
)
from tests.bench.names import HEARTH, MLX_LM_SERVER
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

ONE_ROW = ("--decode-concurrency", "1", "--prompt-concurrency", "1")
LONG_TOKENS = 6_000
LONGEST_TOKENS = 15_000  # where 6,000 are read before anybody can hang up; fits the context
SHORT_TOKENS = 20
ANSWER_TOKENS = 4
STEPS_SEEN = 8  # before the hang-up, to know what a step takes
LEAD_SECONDS = 0.1  # for what was sent last to be seen
STALL_MS = 250  # one slice of a prompt, when others wait
EXTRA_MS = 50.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds from hanging up what decoded, what was being read, what waited in front."""

    decode: float
    prefill: float
    queued: float
    step: float


def run(options: Options) -> Report:
    models = options.models or ("tiny", "small")
    budget = Budget(options.seconds, num_parts=len(models))
    report = Report()
    for model in models:
        with contestants(model, fields={"max_rows": 1}, server_options=ONE_ROW) as sides:
            samples = interleave(
                {target.name: _measuring(sides, target, model) for target in sides.targets},
                rounds=options.rounds or 6,
                deadline=budget.next_deadline(),
            )
            report.results += _results(model, samples)
    return report


def _measuring(sides: Contestants, target: Target, model: str) -> Callable[[int], Sample]:
    hangups = Hangups(target)

    def measure(number: int) -> Sample:
        def question(label: str, *, tokens: int, max_tokens: int) -> Question:
            prompt = sides.prompts.prompt(f"{model} cancel {number} {label}", tokens=tokens)
            return Question(prompt=prompt, max_tokens=max_tokens)

        with quiet_collector():
            return asyncio.run(hangups.measure(question))

    return measure


class Hangups:
    """The three hang-ups of a round on one side."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._long_tokens = LONG_TOKENS
        self._question: Callable[..., Question]

    async def measure(self, question: Callable[..., Question]) -> Sample:
        self._question = question
        decode, step = await self._in_decode()
        prefill = await self._in_prefill()
        queued = await self._in_queue()
        return Sample(decode=decode, prefill=prefill, queued=queued, step=step)

    async def _in_decode(self) -> tuple[float, float]:
        first = await self._decoding("decode")
        behind = await self._queued(self._short("behind decode"))
        while len(read_answer(first.recording).text_at) < STEPS_SEEN:
            await asyncio.sleep(LEAD_SECONDS)
        freed = await self._seconds_until_text(behind, first.close)
        text_at = read_answer(first.recording).text_at
        return freed, median([later - earlier for earlier, later in pairwise(text_at)])

    async def _in_prefill(self) -> float:
        """With a longer prompt as long as it has been read too soon. Raises BenchmarkFailed."""
        while (freed := await self._try_in_prefill()) is None:
            if self._long_tokens == LONGEST_TOKENS:
                raise BenchmarkFailed(f"{self._target.name} reads prompts faster than one hangs up")
            self._long_tokens = min(2 * self._long_tokens, LONGEST_TOKENS)
        return freed

    async def _try_in_prefill(self) -> float | None:
        """Hung up after the first part of many, with the rest still to be read; or None."""
        first = await open_exchange(self._target, self._long(f"prefill {self._long_tokens}"))
        await _wait(first.is_reading)
        short = self._short(f"behind prefill {self._long_tokens}")
        behind = await open_exchange(self._target, short)
        await asyncio.sleep(LEAD_SECONDS)
        if not first.has_text.is_set():
            return await self._seconds_until_text(behind, first.close)
        first.close()
        await _wait(behind.is_over)
        return None

    async def _in_queue(self) -> float:
        """A long prompt that waited has been hung up: who comes after it must not notice."""
        first = await self._decoding("before the queue")
        gone = await self._queued(self._long("queued"))
        behind = await self._queued(self._short("behind the queue"))
        gone.close()
        await asyncio.sleep(LEAD_SECONDS)
        return await self._seconds_until_text(behind, first.close)

    async def _decoding(self, label: str) -> Exchange:
        endless = self._question(label, tokens=SHORT_TOKENS, max_tokens=ENDLESS_TOKENS)
        exchange = await open_exchange(self._target, endless)
        await _wait(exchange.has_text)
        return exchange

    async def _queued(self, question: Question) -> Exchange:
        """Accepted, and without a row while another has it."""
        exchange = await open_exchange(self._target, question)
        await _wait(exchange.is_accepted)
        if exchange.has_text.is_set():
            raise BenchmarkFailed(f"{self._target.name} has more than one row")
        return exchange

    async def _seconds_until_text(self, behind: Exchange, hang_up: Callable[[], None]) -> float:
        hung_up_at = time.perf_counter()
        hang_up()
        await _wait(behind.is_over)
        answer = read_answer(behind.recording)
        check_answer(self._target, answer, self._short("any"))
        return answer.text_at[0] - hung_up_at

    def _short(self, label: str) -> Question:
        return self._question(label, tokens=SHORT_TOKENS, max_tokens=ANSWER_TOKENS)

    def _long(self, label: str) -> Question:
        return self._question(label, tokens=self._long_tokens, max_tokens=ANSWER_TOKENS)


async def _wait(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), ANSWER_TIMEOUT_SECONDS)


def _results(model: str, samples: dict[str, list[Sample]]) -> list[Result]:
    step_ms = 1000 * median([sample.step for sample in samples[HEARTH]])
    bars = {
        "decode": step_ms + EXTRA_MS,
        "prefill": STALL_MS + EXTRA_MS,
        "queued": step_ms + EXTRA_MS,
    }
    absolute = [
        milliseconds(
            f"{model}.freed_in_{place}.{name}",
            median([getattr(sample, place) for sample in side]),
            bar=bar if name == HEARTH else None,
        )
        for place, bar in bars.items()
        for name, side in samples.items()
    ]
    over_rival = median_ratio(
        [sample.decode for sample in samples[HEARTH]],
        [sample.decode for sample in samples[MLX_LM_SERVER]],
    )
    name = f"{model}.freed_in_decode_over_{MLX_LM_SERVER}"
    return [*absolute, ratio(name, over_rival, rival=MLX_LM_SERVER)]

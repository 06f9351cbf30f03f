"""From hanging up to the row being free, seen by the request that waits for the row.

Every side gets a single row. What the waiting request takes by itself is taken off.
Rival: mlx_lm.server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

from tests.bench.answers import read_answer
from tests.bench.background import ENDLESS_TOKENS
from tests.bench.contestants import Contestants, contestants
from tests.bench.exchange import Exchange, Question, Target, open_exchange
from tests.bench.load import ANSWER_TIMEOUT_SECONDS, ask_among_others, quiet_collector
from tests.bench.options import Options
from tests.bench.ours import HEARTH
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds, ratio
from tests.bench.rivals import MLX_LM_SERVER
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio

ONE_ROW = ("--decode-concurrency", "1", "--prompt-concurrency", "1")
LONG_TOKENS = 6_000
SHORT_TOKENS = 20
ANSWER_TOKENS = 4
QUEUEING_SECONDS = 0.3  # until the second request surely waits behind the first
STALL_MS = 250  # one slice of a prompt, when others wait
EXTRA_MS = 50.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds from hanging up to the free row, when the row decoded, read a prompt, or waited."""

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
    def measure(number: int) -> Sample:
        def question(label: str, *, tokens: int, max_tokens: int) -> Question:
            prompt = sides.prompts.prompt(f"{model} cancel {number} {label}", tokens=tokens)
            return Question(prompt=prompt, max_tokens=max_tokens)

        with quiet_collector():
            return asyncio.run(Hangups(target, question).measure())

    return measure


class Hangups:
    """The three hang-ups of one round on one side."""

    def __init__(self, target: Target, question: Callable[..., Question]) -> None:
        self._target = target
        self._question = question

    async def measure(self) -> Sample:
        own = (await ask_among_others(self._target, self._short("idle"))).ttft
        long_ttft = (await ask_among_others(self._target, self._long("alone"))).ttft
        decode, step = await self._in_decode()
        prefill = await self._in_prefill(read_for=long_ttft / 3)
        queued = await self._in_queue()
        return Sample(decode=decode - own, prefill=prefill - own, queued=queued - own, step=step)

    async def _in_decode(self) -> tuple[float, float]:
        first = await self._decoding("decode")
        freed = await self._freed_after(first.close, self._short("behind decode"))
        text_at = read_answer(first.recording).text_at
        return freed, median([later - earlier for earlier, later in pairwise(text_at)])

    async def _in_prefill(self, *, read_for: float) -> float:
        first = await open_exchange(self._target, self._long("prefill"))
        waiting = asyncio.create_task(self._ask(self._short("behind prefill")))
        await asyncio.sleep(read_for)
        if first.has_text.is_set():
            raise BenchmarkFailed(f"{self._target.name} had read the prompt before the hang-up")
        return await _seconds_until(first.close, waiting)

    async def _in_queue(self) -> float:
        """A long prompt that waited was hung up: whoever comes after it must not notice."""
        first = await self._decoding("before the queue")
        gone = await open_exchange(self._target, self._long("queued"))
        await asyncio.sleep(QUEUEING_SECONDS)

        def hang_up_both() -> None:
            gone.close()
            first.close()

        return await self._freed_after(hang_up_both, self._short("behind the queue"))

    async def _freed_after(self, hang_up: Callable[[], None], behind: Question) -> float:
        waiting = asyncio.create_task(self._ask(behind))
        await asyncio.sleep(QUEUEING_SECONDS)
        return await _seconds_until(hang_up, waiting)

    async def _decoding(self, label: str) -> Exchange:
        endless = self._question(label, tokens=SHORT_TOKENS, max_tokens=ENDLESS_TOKENS)
        exchange = await open_exchange(self._target, endless)
        await asyncio.wait_for(exchange.has_text.wait(), ANSWER_TIMEOUT_SECONDS)
        return exchange

    async def _ask(self, question: Question) -> float:
        """When the first text of the answer came."""
        return (await ask_among_others(self._target, question)).text_at[0]

    def _short(self, label: str) -> Question:
        return self._question(label, tokens=SHORT_TOKENS, max_tokens=ANSWER_TOKENS)

    def _long(self, label: str) -> Question:
        return self._question(label, tokens=LONG_TOKENS, max_tokens=ANSWER_TOKENS)


async def _seconds_until(hang_up: Callable[[], None], first_text_at: Awaitable[float]) -> float:
    hung_up_at = time.perf_counter()
    hang_up()
    return await first_text_at - hung_up_at


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

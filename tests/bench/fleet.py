"""One person's many agents on few rows, and memory for a third of their conversations: what is
found of their prompts, and how long each waits for its answer. Our whole service over HTTP.

Whoever serves in the order of arrival serves each agent when the others have washed its
conversation out of memory. The disk tier is off: it would bring that back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import Coroutine, Iterator, Sequence
from typing import NamedTuple

from tests.bench.answers import Answer
from tests.bench.exchange import Question, Target
from tests.bench.load import ask_among_others, quiet_collector
from tests.bench.models import model_path
from tests.bench.options import Options
from tests.bench.ours import hearth_service
from tests.bench.prompts import PromptMaker
from tests.bench.report import Report, Result, milliseconds
from tests.bench.stats import median, percentile

NUM_ROWS, NUM_AGENTS, NUM_TURNS = 2, 12, 5
PREAMBLE_TOKENS, TASK_TOKENS, RESULT_TOKENS, ANSWER_TOKENS = 400, (800, 1_800), 200, 30
PAUSE_SECONDS = 0.5  # in the mean: what a tool takes
MEMORY_GB = {"small": 0.075}  # for about 6,500 tokens of the 22,000 that are in hand
FOUND_BAR = 0.35


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`seconds`: of each answer, from its request to its end."""

    found: float
    seconds: tuple[float, ...]
    all_seconds: float


class Asked(NamedTuple):
    target: Target
    prompts: PromptMaker


def run(options: Options) -> Report:
    report = Report()
    for model in options.models or ("small",):
        settings = {"HEARTH_CACHE_MEMORY_GB": str(MEMORY_GB[model]), "HEARTH_CACHE_DISK_GB": "0"}
        path = model_path(model)
        with hearth_service(**settings) as service, quiet_collector():
            asked = Asked(service.serve(model, path, max_rows=NUM_ROWS), PromptMaker(path))
            samples = [
                asyncio.run(_measure(_agent(asked, f"{number} {one}") for one in range(NUM_AGENTS)))
                for number in range(options.rounds or 3)
            ]
        report.results += _results(model, samples)
    return report


async def _measure(agents: Iterator[Coroutine[None, None, list[Answer]]]) -> Sample:
    answers = [*itertools.chain.from_iterable(await asyncio.gather(*agents))]
    return Sample(
        found=sum(one.cached_tokens for one in answers) / sum(one.prompt_tokens for one in answers),
        seconds=tuple(one.ended_at - one.started_at for one in answers),
        all_seconds=max(one.ended_at for one in answers) - min(one.started_at for one in answers),
    )


async def _agent(asked: Asked, label: str) -> list[Answer]:
    chooser = random.Random(label)
    messages = [
        {"role": "system", "content": _text(asked, "preamble", PREAMBLE_TOKENS)},
        {"role": "user", "content": _text(asked, label, chooser.randint(*TASK_TOKENS))},
    ]
    answers: list[Answer] = []
    for turn in range(NUM_TURNS):
        await asyncio.sleep(chooser.expovariate(1 / PAUSE_SECONDS))
        question = Question(prompt="", max_tokens=ANSWER_TOKENS, more={"messages": messages})
        answers.append(await ask_among_others(asked.target, question))
        result = _text(asked, f"{label} result {turn}", RESULT_TOKENS)
        messages += [
            {"role": "assistant", "content": answers[-1].text},
            {"role": "user", "content": result},
        ]
    return answers


def _text(asked: Asked, label: str, num_tokens: int) -> str:
    return asked.prompts.prompt(f"fleet {label}", tokens=num_tokens)


def _results(model: str, samples: Sequence[Sample]) -> list[Result]:
    found = median([one.found for one in samples])
    return [
        Result(name=f"{model}.found", value=found, unit="share", better="higher", bar=FOUND_BAR),
        *(
            milliseconds(
                f"{model}.answer_p{100 * share:.0f}",
                median([percentile(one.seconds, share) for one in samples]),
            )
            for share in (0.5, 0.95)
        ),
        milliseconds(f"{model}.all", median([one.all_seconds for one in samples])),
    ]

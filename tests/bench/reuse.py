"""What kept prefixes spare the engine alone: first token / cold at several lengths, in five forms.

    repeat       the same prompt once more
    longer       it with six more tokens
    second_turn  it with its answer and a further question
    edited       its first half, and as much of something else
    restored     it, after memory has forgotten all and the system's page cache too

In process, so it runs on an accelerator with nothing else installed (`--models large`). Lengths:
`--streams 1800,8000`. `same`: the part of the answers to whole repeats that are the cold one's;
where sums are not taken in the same order a cold prompt's is not always the same either.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.cache_jobs import CacheJobs, cache_jobs, tokens
from tests.bench.cold import Sample, over_cold
from tests.bench.models import USUAL, model_path
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds, ratio
from tests.bench.restore import drop_page_cache
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median

LENGTHS = (1_800, 8_000)
MORE_TOKENS = 6
TURN_TOKENS = 40
NUM_ROUNDS = 4
BARS = {
    "repeat": 0.03,
    "longer": None,
    "second_turn": 0.05,
    "edited": None,
    "restored": 1.1,  # a quick device does not wait for a disk
}


def run(options: Options) -> Report:
    models, lengths = options.models or USUAL, options.streams or LENGTHS
    budget = Budget(options.seconds, num_parts=len(models) * len(lengths))
    report = Report()
    for model in models:
        with cache_jobs(model_path(model)) as engine:
            engine.start()
            for number in range(3):
                engine.ask(tokens(f"warm-up {number}", lengths[0]))
            for length in lengths:
                samples = interleave(
                    {"": _measuring(engine, f"{model}-{length}", length)},
                    rounds=options.rounds or NUM_ROUNDS,
                    deadline=budget.next_deadline(),
                )[""]
                report.results += _results(f"{model}-{length}", samples)
    return report


def _results(label: str, samples: list[Sample]) -> list[Result]:
    return [
        milliseconds(f"{label}.cold", median([sample["cold"] for sample in samples])),
        *over_cold(label, samples, BARS),
        ratio(
            f"{label}.same",
            sum(sample["same"] for sample in samples) / len(samples),
            better="higher",
        ),
    ]


def _measuring(engine: CacheJobs, label: str, length: int) -> Callable[[int], Sample]:
    def measure(number: int) -> Sample:
        prompt = tokens(f"{label} {number}", length)
        cold = engine.ask(prompt)
        engine.await_writer()
        turn = tokens(f"{label} {number} turn", TURN_TOKENS)
        other = tokens(f"{label} {number} other", length // 2)
        asked = {
            "repeat": prompt,
            "longer": prompt + tokens("six", MORE_TOKENS),
            "second_turn": prompt + cold.token_ids + turn,
            "edited": prompt[: length // 2] + other,
            "restored": prompt,
        }
        sample, same = {"cold": cold.ttft}, []
        for form, tokens_asked in asked.items():
            if form == "restored":
                engine.forget_memory()
                drop_page_cache()
            found = engine.ask(tokens_asked)
            engine.await_writer()
            if form != "restored" and not found.cached_tokens:
                raise BenchmarkFailed(f"{label}: nothing found for {form}")
            if asked[form] is prompt:
                same.append(found.token_ids == cold.token_ids)
            sample[form] = found.ttft
        return {**sample, "same": sum(same) / len(same)}

    return measure

"""After a restart the disk brings prompts back: first token, restored / cold, also on slow disks.

Engine in process, restarted on the same folder; the operating system's page cache is dropped where
that is possible. `slow`: every read takes as long as computing everything. `stalling`: the disk
answers no more from the middle of the prompt on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from engine.core.blocks import BLOCK_TOKENS
from tests.bench.cache_jobs import CacheJobs, cache_jobs, tokens
from tests.bench.cold import Sample, over_cold
from tests.bench.models import USUAL, model_path
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median

LENGTHS = (1_800, 8_000)
BARS = {"restored": 0.15, "stalling": 1.1, "slow": 1.1}
MOST_SECONDS = 110.0
STALL_SECONDS = 600.0  # longer than any prompt takes
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def run(options: Options) -> Report:
    models, lengths = options.models or USUAL, options.streams or LENGTHS
    cells = [(model, length) for model in models for length in lengths]
    budget = Budget(min(options.seconds, MOST_SECONDS), num_parts=len(cells))
    report = Report()
    for model, length in cells:
        with cache_jobs(model_path(model)) as engine:
            engine.start()
            samples = interleave(
                {"": _measuring(engine, f"{model}-{length}", length)},
                rounds=options.rounds or 4,
                deadline=budget.next_deadline(),
            )[""]
        report.results += _results(f"{model}-{length}", samples)
    return report


def _results(label: str, samples: list[Sample]) -> list[Result]:
    cold = median([sample["cold"] for sample in samples])
    return [milliseconds(f"{label}.cold", cold), *over_cold(label, samples, BARS)]


def _measuring(engine: CacheJobs, label: str, length: int) -> Callable[[int], Sample]:
    """One round: cold, then from disk in a new engine, then from disks that misbehave."""

    def measure(number: int) -> Sample:
        prompt = tokens(f"{label} {number}", length)
        cold = engine.ask(prompt)
        sample = {"cold": cold.ttft}
        delays = {
            "restored": (0.0, 0),
            "stalling": (STALL_SECONDS, length // BLOCK_TOKENS // 2),
            "slow": (cold.ttft, 0),
        }
        engine.start()
        for name, (read_seconds, after_reads) in delays.items():
            engine.forget_memory()
            drop_page_cache()
            engine.slow_down(read_seconds, after_reads=after_reads)
            found = engine.ask(prompt)
            engine.slow_down(0.0)
            if found.token_ids != cold.token_ids:
                raise BenchmarkFailed(f"{label}: another answer from a disk ({name})")
            if name == "restored" and not found.cached_tokens:
                raise BenchmarkFailed(f"{label}: nothing restored")
            sample[name] = found.ttft
        return sample

    return measure


def drop_page_cache() -> None:
    """So that the disk is read; where this is not allowed, reads come from memory."""
    os.sync()
    if os.access(_DROP_CACHES, os.W_OK):
        try:
            _DROP_CACHES.write_text("1")
        except OSError:
            return

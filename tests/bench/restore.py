"""After a restart the disk brings prompts back: first token, restored / cold, also on slow disks.

Engine in process, restarted on the same folder; the operating system's page cache is dropped where
that is possible. `slow`: every read takes so long that computing is quicker. `stalling`: the disk
becomes that slow in the middle of a prompt.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.bench.cache_jobs import CacheJobs, cache_jobs, tokens
from tests.bench.contestants import MODELS
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio
from tests.tiny_models import tiny_model_path

LENGTHS = (1_800, 8_000)
RESTORED_BAR = 0.15
NEVER_ABOVE_BAR = 1.1
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")

Sample = dict[str, float]


def run(options: Options) -> Report:
    models = options.models or tuple(MODELS)
    cells = [(model, length) for model in models for length in options.streams or LENGTHS]
    budget = Budget(options.seconds, num_parts=len(cells))
    report = Report()
    for model, length in cells:
        with cache_jobs(tiny_model_path(MODELS[model])) as engine:
            samples = interleave(
                {"": _measuring(engine, f"{model}-{length}", length)},
                rounds=options.rounds or 4,
                deadline=budget.next_deadline(),
            )[""]
        cold = [sample["cold"] for sample in samples]
        report.results.append(milliseconds(f"{model}-{length}.cold", median(cold)))
        for name in ("restored", "slow", "stalling"):
            bar = RESTORED_BAR if name == "restored" else NEVER_ABOVE_BAR
            over_cold = median_ratio([sample[name] for sample in samples], cold)
            report.results.append(ratio(f"{model}-{length}.{name}_over_cold", over_cold, bar=bar))
    return report


def _measuring(engine: CacheJobs, label: str, length: int) -> Callable[[int], Sample]:
    def measure(number: int) -> Sample:
        engine.start()
        prompt = tokens(f"{label} {number}", length)
        cold = engine.ask(prompt)
        sample = {"cold": cold.ttft}
        delays = {
            "restored": (0.0, 0),
            "slow": (cold.ttft, 0),
            "stalling": (10 * cold.ttft, length // 512),
        }
        for name, (read_seconds, after_reads) in delays.items():
            engine.start()
            drop_page_cache()
            engine.slow_down(read_seconds, after_reads=after_reads)
            found = engine.ask(prompt)
            engine.slow_down(0.0)
            if found.token_ids != cold.token_ids:
                raise BenchmarkFailed(f"{label}: another answer after a restart")
            if name == "restored" and found.cached_tokens < length - 1:
                raise BenchmarkFailed(f"{label}: {found.cached_tokens} tokens restored")
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

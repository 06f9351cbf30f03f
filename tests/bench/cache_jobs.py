"""The engine with its cache, as the benchmarks ask it: cached_engine.py behind a few calls."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from engine import wire
from tests.bench.processes import JobChild

FIRST_TOKEN_ID, LAST_TOKEN_ID = 100, 3000  # ordinary tokens of every test model
OFF = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    ttft: float
    token_ids: list[int]
    cached_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Prompts asked at once: how each fared, and what it took until all had ended, by the clock and
    in the process's time on all cores."""

    fared: list[Fared]
    seconds: float
    cpu_seconds: float


class CacheJobs:
    def __init__(self, child: JobChild) -> None:
        self._child = child

    def start(self, *, memory_bytes: int | None = None, disk_bytes: int | None = None) -> None:
        """A new engine; what the one before wrote is there. None: its own choice."""
        self._child.do({"do": "start", "memory_bytes": memory_bytes, "disk_bytes": disk_bytes})

    def slow_down(self, read_seconds: float, *, after_reads: int = 0) -> None:
        self._child.do({"do": "slow", "read_seconds": read_seconds, "after_reads": after_reads})

    def forget_memory(self) -> None:
        """What is on disk has to be read again."""
        self._child.do({"do": "forget"})

    def ask(self, prompt: list[int], *, max_tokens: int = 4) -> Fared:
        return self.ask_together([prompt], max_tokens=max_tokens).fared[0]

    def ask_together(self, prompts: list[list[int]], *, max_tokens: int) -> Together:
        done = self._child.do({"do": "ask", "prompts": prompts, "max_tokens": max_tokens})
        fared = [Fared(**one) for one in done.pop("answers")]
        return Together(fared=fared, **done)

    def await_writer(self) -> None:
        """Until what waits to be written is on disk: it would slow down whoever is asked next."""
        while (disk := self.status().disk) is not None and disk.queued_bytes:
            time.sleep(0.05)

    def status(self) -> wire.CacheStatus:
        return msgspec.convert(self._child.do({"do": "status"}), wire.CacheStatus)


@contextlib.contextmanager
def cache_jobs(model_path: Path) -> Iterator[CacheJobs]:
    """Nothing is started yet."""
    command = [sys.executable, "-m", "tests.bench.cached_engine", str(model_path)]
    with (
        tempfile.TemporaryDirectory(prefix="hearth-bench-logs-") as logs,
        JobChild(command, log=Path(logs) / "cached_engine.log") as child,
    ):
        yield CacheJobs(child)


def tokens(label: str, count: int) -> list[int]:
    """Tokens that no other label gives."""
    chooser = random.Random(label)
    return [chooser.randint(FIRST_TOKEN_ID, LAST_TOKEN_ID) for _ in range(count)]

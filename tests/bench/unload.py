"""What a model leaves behind when it is unloaded: memory after / memory before, in one process.

The engine's loop without Redis: load, answer a few requests at once, unload, several times over.
Memory is what MLX has in use and keeps unused; what the system says of the process is told too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from engine import wire
from engine.assembly import build_worker
from engine.config import EngineConfig
from engine.core.delivery import Delivery
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.prefixes import Prefixes
from tests.bench.engine_loop import DirectTransport
from tests.bench.models import model_path
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result

NAME = "bench"
NUM_ROUNDS, NUM_REQUESTS = 5, 4
MOST_TURNS = 20_000
LEFT_BAR = 0.05
MIB = 1024**2


class Loop:
    """A worker that loads, answers and unloads as it is told."""

    def __init__(self, folder: Path, model: Path) -> None:
        config = EngineConfig(name=NAME, redis_url="", data_dir=folder, cache_memory_bytes=0)
        self.memory = DeviceMemory()
        self.prefixes = Prefixes(config, ceiling_bytes=self.memory.ceiling_bytes)
        self._transport = DirectTransport()
        self._worker = build_worker(
            config,
            transport=self._transport,
            memory=self.memory,
            vitals=Vitals(engine_name=NAME, memory=self.memory),
            prefixes=self.prefixes,
        )
        spec = wire.ModelSpec(name=NAME, path=str(model))
        self._transport.inbox.append(wire.Configure(models=(spec,)))
        self._turn()

    def in_use(self) -> int:
        readings = self.memory.read()
        return readings.active_bytes + readings.pool_bytes

    def answer(self, number: int) -> None:
        for place in range(NUM_REQUESTS):
            work = wire.Work(
                request_id=f"{number} {place}",
                model=NAME,
                tenant="bench",
                priority=wire.Priority.API,
                submitted_at=0.0,
                accepted_at=0.0,
                sampling=wire.Sampling(seed=place),
                prompt_token_ids=tuple(range(10, 400 + 100 * place)),
                max_tokens=8,
            )
            self._transport.inbox.append(Delivery(work=work, fence=1, attempt=1, next_seq=1))
        num_ends = 0
        for _ in range(MOST_TURNS):
            num_ends += sum(isinstance(one, wire.Finished) for _, one in self._turn())
            if num_ends == NUM_REQUESTS:
                return
        raise BenchmarkFailed("requests without an end")

    def unload(self) -> None:
        self._transport.inbox.append(wire.UnloadModel(name=NAME))
        for _ in range(20):
            self._turn()

    def _turn(self) -> list[tuple[str, wire.Event]]:
        self._worker.turn()
        published, self._transport.published = self._transport.published, []
        return published


def run(options: Options) -> Report:
    report = Report()
    for model in options.models or ("small",):
        with tempfile.TemporaryDirectory(prefix="hearth-bench-unload-") as folder:
            loop = Loop(Path(folder), model_path(model))
            try:
                report.results += measure(model, loop, options.rounds or NUM_ROUNDS)
            finally:
                loop.prefixes.close()
    return report


def measure(model: str, loop: Loop, num_rounds: int) -> list[Result]:
    loop.answer(0)  # what is imported and compiled once is no news
    loop.unload()
    left, loaded, before_process = [], 0, loop.memory.read().process_bytes
    for number in range(1, num_rounds + 1):
        before_bytes = loop.in_use()
        loop.answer(number)
        loaded = loop.in_use() - before_bytes
        loop.unload()
        left.append((loop.in_use() - before_bytes) / loaded)
    grown = (loop.memory.read().process_bytes - before_process) / MIB
    return [
        _figure(f"{model}.loaded", loaded / MIB, "MiB"),
        _figure(f"{model}.left_behind_most", max(left), "share", bar=LEFT_BAR),
        _figure(f"{model}.process_grown", grown, "MiB"),
    ]


def _figure(name: str, value: float, unit: str, *, bar: float | None = None) -> Result:
    return Result(name=name, value=value, unit=unit, better="lower", bar=bar)

"""Our engine in a process of its own, with its prefix cache set up, restarted and slowed by jobs.

`python -m tests.bench.cached_engine MODEL_FOLDER`; each line is a job:

    {"do": "start", "memory_bytes", "disk_bytes"}   a new engine on the same folder
    {"do": "slow", "read_seconds", "after_reads"}   the disk takes so long for each later read
    {"do": "forget"}                                 what is in memory; the disk keeps it
    {"do": "ask", "prompts", "max_tokens"}          all at once; how each fared, and what it took
    {"do": "status"}                                 the cache's figures
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from engine import wire
from engine.assembly import build_worker
from engine.cache.files import RealFiles
from engine.cache.report import cache_status
from engine.config import EngineConfig
from engine.core.delivery import Delivery
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.prefixes import Prefixes
from engine.worker import Received, Worker
from tests.bench.engine_loop import MODEL_NAME, NUM_ROWS, DirectTransport

WAIT_SECONDS = 0.0005


class SlowFiles(RealFiles):
    """Reads that take longer, once some have been quick. One that waits ends with its setting."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self.set(read_seconds=0.0, after_reads=0)

    def set(self, *, read_seconds: float, after_reads: int) -> None:
        self._is_over.set()
        self._read_seconds = read_seconds
        self._quick_reads = after_reads
        self._is_over = threading.Event()

    def read(self, path: Path) -> bytes:
        if self._quick_reads <= 0 and self._read_seconds:
            self._is_over.wait(self._read_seconds)
        self._quick_reads -= 1
        return super().read(path)


class CalmTransport(DirectTransport):
    """As the real one it lets other threads run where the worker has time to wait."""

    def receive(self, wait_seconds: float) -> list[Received]:
        if wait_seconds and not self.inbox:
            time.sleep(WAIT_SECONDS)
        return super().receive(wait_seconds)


class CachedEngine:
    def __init__(self, model_folder: Path, data_dir: Path) -> None:
        self._model_folder = model_folder
        self._data_dir = data_dir
        self._files = SlowFiles()
        self._keys = itertools.count()
        self._memory = DeviceMemory()
        self._prefixes: Prefixes | None = None

    def do(self, job: dict[str, Any]) -> Any:
        match job["do"]:
            case "start":
                return self._start(job["memory_bytes"], job["disk_bytes"])
            case "slow":
                self._files.set(read_seconds=job["read_seconds"], after_reads=job["after_reads"])
                return None
            case "forget":
                return self._forget()
            case "ask":
                return self._ask(job["prompts"], job["max_tokens"])
            case "status":
                return wire.to_plain(cache_status(self._cache.cache))
        raise ValueError(job["do"])

    def close(self) -> None:
        if self._prefixes is not None:
            self._settle()
            self._worker.close()
            self._prefixes.close()

    @property
    def _cache(self) -> Prefixes:
        assert self._prefixes is not None, "start comes first"
        return self._prefixes

    def _start(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        self.close()
        config = EngineConfig(
            name=MODEL_NAME,
            redis_url="",
            data_dir=self._data_dir,
            cache_memory_bytes=memory_bytes,
            cache_disk_bytes=disk_bytes,
        )
        self._prefixes = Prefixes(
            config, ceiling_bytes=self._memory.ceiling_bytes, files=self._files
        )
        self._transport = CalmTransport()
        self._worker: Worker = build_worker(
            config,
            transport=self._transport,
            memory=self._memory,
            vitals=Vitals(engine_name=MODEL_NAME, memory=self._memory),
            prefixes=self._prefixes,
        )
        spec = wire.ModelSpec(name=MODEL_NAME, path=str(self._model_folder), max_rows=NUM_ROWS)
        self._transport.inbox = [wire.Configure(models=(spec,)), wire.LoadModel(name=MODEL_NAME)]
        self._ask([[1] * 40], max_tokens=2)  # it is loaded, and a slice has been timed

    def _ask(self, prompts: list[list[int]], max_tokens: int) -> dict[str, Any]:
        started, cpu_started = time.perf_counter(), time.process_time()
        answers = {self._submit(prompt, max_tokens): _Answer() for prompt in prompts}
        while not all(answer.is_over for answer in answers.values()):
            self._worker.turn()
            published, self._transport.published = self._transport.published, []
            for request_id, event in published:
                answers[request_id].add(event, seconds=time.perf_counter() - started)
        took = {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu_started,
        }
        self._settle()
        return {**took, "answers": [answer.to_plain() for answer in answers.values()]}

    def _forget(self) -> None:
        """A model whose prefixes are still to go is not looked up."""
        self._settle()  # it hears what is on disk by now
        self._cache.cache.clear(MODEL_NAME, tiers=[wire.CacheTier.MEMORY])
        while self._cache.cache.is_clearing:
            self._worker.turn()

    def _settle(self) -> None:
        """Rows that have ended leave, and what they leave behind is kept."""
        for _ in range(4):
            self._worker.turn()

    def _submit(self, prompt: list[int], max_tokens: int) -> str:
        request_id = str(next(self._keys))
        work = wire.Work(
            request_id=request_id,
            model=MODEL_NAME,
            tenant="bench",
            priority=wire.Priority.API,
            submitted_at=0.0,
            accepted_at=0.0,
            sampling=wire.Sampling(seed=1, temperature=0.0),
            prompt_token_ids=tuple(prompt),
            max_tokens=max_tokens,
        )
        self._transport.inbox.append(Delivery(work=work, fence=1, attempt=1, next_seq=1))
        return request_id


class _Answer:
    def __init__(self) -> None:
        self.is_over = False
        self._ttft: float | None = None
        self._token_ids: list[int] = []
        self._cached_tokens = 0

    def add(self, event: wire.Event, *, seconds: float) -> None:
        match event:
            case wire.Delta(token_ids=token_ids):
                self._ttft = self._ttft or seconds
                self._token_ids += token_ids
            case wire.Finished(usage=usage):
                self._cached_tokens, self.is_over = usage.cached_tokens, True
            case wire.Failed() | wire.Refused():
                raise RuntimeError(f"{event.code} {event.detail}")

    def to_plain(self) -> dict[str, Any]:
        return {
            "ttft": self._ttft,
            "token_ids": self._token_ids,
            "cached_tokens": self._cached_tokens,
        }


def main(model_folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hearth-bench-engine-") as folder:
        engine = CachedEngine(model_folder, Path(folder))
        for line in sys.stdin:
            print(json.dumps(engine.do(json.loads(line))), flush=True)
        engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

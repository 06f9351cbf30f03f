"""Our engine on a real queue, with its steps timed inside and outside the model.

`python -m tests.bench.step_timer MODEL_FOLDER`; a job is {"queue", "steps"}: how many requests
wait, how many decode steps of full batches to time. The answer: {"outside": seconds of each}.

    turn   [ commands | schedule | run: forward, sampling | update, text, publish | look after ]
    timed  [ outside ............]                        [ outside ...........................]
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine import wire
from engine.core.blocks import root_key
from engine.core.pacing import TimeLedger
from engine.core.step import Outcome, Step
from engine.guard import MemoryGuard
from engine.handle import ModelHandle
from engine.model.caches import new_caches
from engine.model.loader import load
from engine.model.runner import Runner
from engine.model.snapshots import needs_of
from engine.pool import ModelPool
from engine.reuse import PrefixReuse
from engine.shelf import ModelVoice
from engine.transport import Transport
from engine.worker import Worker
from tests.bench.engine_loop import MODEL_NAME, NUM_ROWS, Parts, engine_parts
from tests.engine.transport.rig import Rig
from tests.redis_process import RedisProcess

NUM_TENANTS = 50
SUBMITTED_AT_ONCE = 1000
MAX_TOKENS = (24, 72)  # so that rows end and are filled again while steps are timed
LEAST_FULL = NUM_ROWS - 4


class TimedRunner:
    """A runner that adds up its own time and remembers its last step."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.seconds = 0.0
        self.last_step = Step()

    def run(self, step: Step) -> Outcome | None:
        self.last_step = step
        started_at = time.perf_counter()
        outcome = self._runner.run(step)
        self.seconds += time.perf_counter() - started_at
        return outcome

    def reset(self) -> None:
        self._runner.reset()


class LoadedShelf:
    """Has one model, and that one is loaded."""

    def __init__(self, handle: ModelHandle) -> None:
        self._handle = handle

    def weight_bytes(self, spec: wire.ModelSpec) -> int:
        return self._handle.weight_bytes

    def active_bytes(self) -> int:
        return 0

    def load(self, spec: wire.ModelSpec) -> Iterator[float | ModelHandle]:
        yield self._handle

    def give_memory_back(self) -> None:
        """It never does."""


class TimedEngine:
    def __init__(self, model_folder: Path, redis_url: str, parts: Parts) -> None:
        self._rig = Rig(redis_url)
        spec = wire.ModelSpec(name=MODEL_NAME, path=str(model_folder), max_rows=NUM_ROWS)
        self._rig.client.publish_models((spec,))
        handle = self._load(spec, parts)
        self.transport = Transport(
            redis_url=redis_url, engine_name=MODEL_NAME, status=parts.vitals.status
        )
        guard = MemoryGuard(ceiling_bytes=parts.memory.ceiling_bytes)
        self._worker = Worker(
            transport=self.transport,
            pool=ModelPool(LoadedShelf(handle), guard),
            vitals=parts.vitals,
            memory=parts.memory,
            prefixes=parts.prefixes.cache,
        )

    def _load(self, spec: wire.ModelSpec, parts: Parts) -> ModelHandle:
        *_, last = load(Path(spec.path), casts_to_float32=True)
        loaded = last.loaded
        assert loaded is not None
        voice = ModelVoice(loaded.tokenizer)
        runner = Runner(loaded.model, decode_token=voice.decode_token)
        needs = needs_of(new_caches(loaded.model))
        assert needs is not None
        root = root_key(loaded.identity)
        self._runner = TimedRunner(runner)
        return ModelHandle(
            spec,
            runner=self._runner,
            reuse=PrefixReuse(parts.prefixes.cache, runner, spec=spec, root=root, needs=needs),
            voice=voice,
            ledger=TimeLedger(),
            vitals=parts.vitals,
            context_limit_tokens=loaded.context_limit_tokens,
        )

    def queue(self, count: int) -> None:
        chooser = random.Random(count)
        for start in range(0, count, SUBMITTED_AT_ONCE):
            for number in range(start, min(count, start + SUBMITTED_AT_ONCE)):
                self._rig.submit(
                    f"{count}-{number}",
                    model=MODEL_NAME,
                    tenant=f"user:{number % NUM_TENANTS}",
                    sampling=wire.Sampling(seed=number, temperature=0.0),
                    max_tokens=chooser.randint(*MAX_TOKENS),
                )
            self._rig.admit_all(max_queue=count, max_queue_per_tenant=count)

    def time_steps(self, count: int) -> list[float]:
        """Seconds outside the model of `count` steps that decode (almost) all rows."""
        samples: list[float] = []
        while len(samples) < count:
            self._runner.seconds = 0.0
            started_at = time.perf_counter()
            self._worker.turn()
            seconds = time.perf_counter() - started_at - self._runner.seconds
            if len(self._runner.last_step.decodes) >= LEAST_FULL:
                samples.append(seconds)
        return samples


@contextlib.contextmanager
def _timed_engine(model_folder: Path) -> Iterator[TimedEngine]:
    """With a Redis of its own."""
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder, engine_parts() as parts:
        redis = RedisProcess(Path(folder))
        redis.start()
        try:
            engine = TimedEngine(model_folder, redis.url, parts)
            yield engine
            engine.transport.close()
        finally:
            redis.stop()


def main(model_folder: Path) -> None:
    for line in sys.stdin:
        job = json.loads(line)
        with _timed_engine(model_folder) as engine:
            engine.queue(job["queue"])
            engine.transport.start()
            samples = engine.time_steps(job["steps"])
        print(json.dumps({"outside": samples}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

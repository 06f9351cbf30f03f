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
from engine.assembly import build_worker
from engine.core.step import Outcome, Step
from engine.model.runner import Runner
from engine.transport import Transport
from tests.bench.engine_loop import MODEL_NAME, NUM_ROWS, Parts, engine_parts
from tests.engine.transport.rig import Rig
from tests.redis_process import RedisProcess

NUM_TENANTS = 50
SUBMITTED_AT_ONCE = 1000
MAX_TOKENS = (24, 72)  # so that rows end and are filled again while steps are timed
LEAST_FULL = NUM_ROWS - 4


class RunnerClock:
    """Adds up the time that runners take, and remembers the last step. One in a process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last_step = Step()
        run = Runner.run

        def timed_run(runner: Runner, step: Step) -> tuple[Outcome, ...]:
            self.last_step = step
            started_at = time.perf_counter()
            outcomes = run(runner, step)
            self.seconds += time.perf_counter() - started_at
            return outcomes

        Runner.run = timed_run  # type: ignore[method-assign]


class TimedEngine:
    def __init__(
        self, model_folder: Path, redis_url: str, parts: Parts, clock: RunnerClock
    ) -> None:
        self._rig = Rig(redis_url)
        self._clock = clock
        spec = wire.ModelSpec(name=MODEL_NAME, path=str(model_folder), max_rows=NUM_ROWS)
        self._rig.client.publish_models((spec,))
        self.transport = Transport(
            redis_url=redis_url, engine_name=MODEL_NAME, status=parts.vitals.status
        )
        self._worker = build_worker(
            parts.config,
            transport=self.transport,
            memory=parts.memory,
            vitals=parts.vitals,
            prefixes=parts.prefixes,
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
            self._clock.seconds = 0.0
            started_at = time.perf_counter()
            self._worker.turn()
            seconds = time.perf_counter() - started_at - self._clock.seconds
            if len(self._clock.last_step.decodes) >= LEAST_FULL:
                samples.append(seconds)
        return samples


@contextlib.contextmanager
def _timed_engine(model_folder: Path, clock: RunnerClock) -> Iterator[TimedEngine]:
    """With a Redis of its own."""
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder, engine_parts() as parts:
        redis = RedisProcess(Path(folder))
        redis.start()
        try:
            engine = TimedEngine(model_folder, redis.url, parts, clock)
            yield engine
            engine.transport.close()
        finally:
            redis.stop()


def main(model_folder: Path) -> None:
    clock = RunnerClock()
    for line in sys.stdin:
        job = json.loads(line)
        with _timed_engine(model_folder, clock) as engine:
            engine.queue(job["queue"])
            engine.transport.start()
            samples = engine.time_steps(job["steps"])
        print(json.dumps({"outside": samples}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Our engine on a real queue, with its steps timed inside and outside the model.

`python -m tests.bench.step_timer MODEL_FOLDER`; a job is {"queue", "steps"}: how many requests
wait, how many decode steps of full batches to time. The answer: {"outside": seconds of each,
"critical": those of them in which the device had nothing to do}.

    turn      [ commands | schedule | run: forward, sampling | update, text, publish | look after ]
    outside   [ ................... ]                        [ ................................. ]
    device           ... idle       ] [ computes ........................... ] [ idle
    critical         [ ............ ]                                          [ .............. ]

The device is MLX's thread on a CPU of Linux; what the processor gives it is what it computes,
copies for the prefix cache as well. Where it waits for a processor it counts as idle, and always
where the device is another. Steps that decode are timed, not slices.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from engine import wire
from engine.assembly import build_worker
from engine.core.step import Outcome, Step
from engine.model.runner import Runner
from engine.transport import Transport
from engine.warmth import Warmth
from tests.bench.engine_loop import MODEL_NAME, NUM_ROWS, Parts, engine_parts
from tests.engine.transport.rig import Rig
from tests.redis_process import RedisProcess

NUM_TENANTS = 50
SUBMITTED_AT_ONCE = 1000
MAX_TOKENS = (24, 72)  # so that rows end and are filled again while steps are timed
LEAST_FULL = NUM_ROWS - 4


class Moment(NamedTuple):
    """Seconds by the clock, and those that the device has computed."""

    clock: float
    device: float

    def outside_since(self, before: Moment) -> Outside:
        seconds = self.clock - before.clock
        return Outside(seconds, max(0.0, seconds - (self.device - before.device)))


class Outside(NamedTuple):
    """Seconds outside the model, and those of them in which the device was idle."""

    seconds: float
    critical: float

    def __add__(self, other: Outside) -> Outside:  # type: ignore[override]
        return Outside(self.seconds + other.seconds, self.critical + other.critical)


class DeviceClock:
    """MLX's thread on a CPU, which its first use in a process starts."""

    def __init__(self) -> None:
        self._clock_id: int | None = None
        if sys.platform == "linux" and mx.default_device() == mx.Device(mx.cpu):
            before = _threads()
            mx.eval(mx.ones(1) + 1)
            (started,) = _threads() - before
            self._clock_id = (~started << 3) | 6  # clock_getcpuclockid(3) of a thread

    def now(self) -> Moment:
        device = 0.0 if self._clock_id is None else time.clock_gettime(self._clock_id)
        return Moment(time.perf_counter(), device)


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


class RunnerClock:
    """When the last step was run, and which it was. One in a process."""

    def __init__(self, device: DeviceClock) -> None:
        self.device = device
        self.last_step = Step()
        self.began_at = self.ended_at = device.now()
        clock, run = self, Runner.run

        def timed_run(self: Runner, step: Step) -> tuple[Outcome, ...]:
            clock.last_step = step
            clock.began_at = device.now()
            outcomes = run(self, step)
            clock.ended_at = device.now()
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
            redis_url=redis_url,
            engine_name=MODEL_NAME,
            status=parts.vitals.status,
            is_clearing=parts.prefixes.is_clearing,
            weigh=Warmth(parts.prefixes.cache).weigh,
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

    def time_steps(self, count: int) -> list[Outside]:
        """Of `count` steps that decode (almost) all rows."""
        samples: list[Outside] = []
        clock = self._clock
        while len(samples) < count:
            clock.last_step, started_at = Step(), clock.device.now()
            self._worker.turn()
            ended_at = clock.device.now()
            if len(clock.last_step.decodes) >= LEAST_FULL:
                before = clock.began_at.outside_since(started_at)
                samples.append(before + ended_at.outside_since(clock.ended_at))
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
    clock = RunnerClock(DeviceClock())
    for line in sys.stdin:
        job = json.loads(line)
        with _timed_engine(model_folder, clock) as engine:
            engine.queue(job["queue"])
            engine.transport.start()
            samples = engine.time_steps(job["steps"])
        outside, critical = zip(*samples, strict=True)
        print(json.dumps({"outside": outside, "critical": critical}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

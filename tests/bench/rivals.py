"""Those whom we are measured against, and engines without a server, each in its own process."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.exchange import Question, Target
from tests.bench.load import Load
from tests.bench.names import BATCH_GENERATOR, MLX_LM_SERVER
from tests.bench.processes import Child, JobChild, free_port
from tests.bench.report import BenchmarkFailed


@contextlib.contextmanager
def mlx_lm_server(model_path: Path, logs: Path, *options: str) -> Iterator[Target]:
    """mlx_lm.server with its own defaults and `options`, ready to answer."""
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model_path)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "WARNING", *options]
    with Child(command, log=logs / f"mlx_lm_server-{port}.log") as child:
        child.wait_until_ready(f"http://127.0.0.1:{port}/health")
        yield Target(name=MLX_LM_SERVER, port=port, model="default_model")


class InProcess:
    """An engine without a server around it, given the same questions as a server."""

    def __init__(self, name: str, child: JobChild) -> None:
        self._name = name
        self._child = child

    def run_load(
        self, streams: Sequence[Sequence[Question]], *, shares_sampler: bool = False
    ) -> Load:
        """All questions of one load have the same temperature."""
        done = self._child.do(
            {
                "streams": [
                    [{"prompt": one.prompt, "max_tokens": one.max_tokens} for one in stream]
                    for stream in streams
                ],
                "temperature": streams[0][0].temperature,
                "shares_sampler": shares_sampler,
            }
        )
        wanted = sum(question.max_tokens for stream in streams for question in stream)
        if done["tokens"] != wanted:
            raise BenchmarkFailed(f"{self._name} gave {done['tokens']} of {wanted} tokens")
        return Load(
            tokens=done["tokens"],
            seconds=done["seconds"],
            ttfts=tuple(done["ttfts"]),
            gaps=tuple(done["gaps"]),
        )


@contextlib.contextmanager
def batch_generator(model_path: Path, logs: Path) -> Iterator[InProcess]:
    with _in_process(BATCH_GENERATOR, "batch_generator", model_path, logs) as generator:
        yield generator


@contextlib.contextmanager
def engine_loop(model_path: Path, logs: Path) -> Iterator[InProcess]:
    """Ours, for the benchmark that leaves out everything around the engines."""
    with _in_process("engine loop", "engine_loop", model_path, logs) as loop:
        yield loop


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of each step outside the model, and those in which the device was idle meanwhile."""

    outside: list[float]
    critical: list[float]


class StepTimer:
    """Our engine on a real queue, in a process of its own."""

    def __init__(self, child: JobChild) -> None:
        self._child = child

    def time(self, *, queue: int, steps: int) -> StepTimes:
        """Of `steps` decode steps, while `queue` requests wait."""
        return StepTimes(**self._child.do({"queue": queue, "steps": steps}))


@contextlib.contextmanager
def step_timer(model_path: Path, logs: Path) -> Iterator[StepTimer]:
    with _child_of("step_timer", model_path, logs) as child:
        yield StepTimer(child)


@contextlib.contextmanager
def _in_process(name: str, module: str, model_path: Path, logs: Path) -> Iterator[InProcess]:
    with _child_of(module, model_path, logs) as child:
        yield InProcess(name, child)


@contextlib.contextmanager
def _child_of(module: str, model_path: Path, logs: Path) -> Iterator[JobChild]:
    command = [sys.executable, "-m", f"tests.bench.{module}", str(model_path)]
    with JobChild(command, log=logs / f"{module}-{model_path.name}.log") as child:
        yield child

"""The rivals, each in a process of its own: mlx_lm.server on a port, BatchGenerator without one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.exchange import Question, Target
from tests.bench.load import Load
from tests.bench.processes import Child, JobChild, free_port

MLX_LM_SERVER = "mlx_lm.server"
BATCH_GENERATOR = "BatchGenerator"


@contextlib.contextmanager
def mlx_lm_server(model_path: Path, logs: Path, *options: str) -> Iterator[Target]:
    """mlx_lm.server with its own defaults and `options`, ready to answer."""
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model_path)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "WARNING", *options]
    with Child(command, log=logs / f"mlx_lm_server-{port}.log") as child:
        child.wait_until_ready(f"http://127.0.0.1:{port}/health")
        yield Target(name=MLX_LM_SERVER, port=port, model="default_model")


class BatchGeneratorRival:
    """Does the same work as a server, given the same questions, without being one."""

    def __init__(self, child: JobChild) -> None:
        self._child = child

    def run_load(
        self, streams: Sequence[Sequence[Question]], *, shares_sampler: bool = False
    ) -> Load:
        """All questions of one load have the same max_tokens and temperature."""
        first = streams[0][0]
        done = self._child.do(
            {
                "streams": [[question.prompt for question in stream] for stream in streams],
                "max_tokens": first.max_tokens,
                "temperature": first.temperature,
                "shares_sampler": shares_sampler,
            }
        )
        return Load(
            tokens=done["tokens"],
            seconds=done["seconds"],
            ttfts=tuple(done["ttfts"]),
            gaps=tuple(done["gaps"]),
        )


@contextlib.contextmanager
def batch_generator(model_path: Path, logs: Path) -> Iterator[BatchGeneratorRival]:
    command = [sys.executable, "-m", "tests.bench.batch_generator", str(model_path)]
    with JobChild(command, log=logs / f"batch_generator-{model_path.name}.log") as child:
        yield BatchGeneratorRival(child)

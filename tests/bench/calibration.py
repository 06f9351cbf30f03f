"""How late the client notes what has arrived: its error against a server with known times."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.answers import read_frames, text_of
from tests.bench.exchange import Question, Recording, Target
from tests.bench.load import quiet_collector, run_streams
from tests.bench.processes import Child, free_port
from tests.bench.report import Result, milliseconds
from tests.bench.stats import percentile

NUM_STREAMS = 16
TOKENS_PER_STREAM = 100
CLIENT_ERROR_BAR_MS = 1.0


@contextlib.contextmanager
def null_server() -> Iterator[Target]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.null_server", str(port)]
    with (
        tempfile.TemporaryDirectory() as logs,
        Child(command, log=Path(logs) / "null_server.log") as child,
    ):
        child.wait_until_ready(f"http://127.0.0.1:{port}/")
        yield Target(name="null server", port=port, model="null")


def calibrate_client() -> Result:
    """The 99th percentile of (noted - sent) at 16 streams of 100 tokens a second."""
    with null_server() as target:
        errors = client_errors(target, streams=NUM_STREAMS, tokens=TOKENS_PER_STREAM)
    return milliseconds(
        "client.error_p99",
        percentile(errors, 0.99),
        bar=CLIENT_ERROR_BAR_MS,
        rival="null server",
    )


def client_errors(target: Target, *, streams: int, tokens: int) -> list[float]:
    """Seconds between the moment a frame was sent and the moment it was noted, for every frame."""
    question = Question(prompt="-", max_tokens=tokens)
    with quiet_collector():
        recordings = asyncio.run(run_streams(target, [[question]] * streams))
    return [error for recording in recordings for error in _errors(recording)]


def _errors(recording: Recording) -> list[float]:
    _, frames = read_frames(recording)
    return [at - float(text_of(frame)) for at, frame in frames if text_of(frame)]

"""`python -m engine` as a process: what it learned of a model is there for the next one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from tests.engine.transport.rig import Rig
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def engine_process(rig: Rig, redis_url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = str(tiny_model_path("tiny-qwen3"))
    rig.client.publish_models((wire.ModelSpec(name="demo", path=path),))
    environment = {**os.environ, "REDIS_URL": redis_url, "HEARTH_DATA_DIR": str(folder)}
    process = subprocess.Popen([sys.executable, "-m", "engine"], cwd=ROOT, env=environment)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()


def answer_one(rig: Rig, number: int) -> None:
    rig.submit(f"r{number}", max_tokens=2)
    rig.admit_all(num_prompt_tokens=100 * number)
    wait_until(lambda: len(rig.ended()) == number)


def test_an_engine_that_is_told_to_end_keeps_what_slices_cost(
    redis_url: str, tmp_path: Path
) -> None:
    rig = Rig(redis_url)
    with engine_process(rig, redis_url, tmp_path):
        for number in range(1, 6):  # each goes on where the one before ends
            answer_one(rig, number)
    (file,) = (tmp_path / "estimates").iterdir()
    (learned,) = json.loads(file.read_text())["models"].values()
    assert learned["cost"]["trusted_tokens"] > 64


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has such a class of threads")
def test_threads_that_compute_on_a_cpu_do_not_interrupt_each_other(
    redis_url: str, tmp_path: Path
) -> None:
    """Those that speak to Redis may interrupt them."""
    rig = Rig(redis_url)
    with engine_process(rig, redis_url, tmp_path) as process:
        answer_one(rig, 1)
        threads = map(int, os.listdir(f"/proc/{process.pid}/task"))
        classes = {thread: os.sched_getscheduler(thread) for thread in threads}
    assert classes.pop(process.pid) == os.SCHED_BATCH
    assert {*classes.values()} == {os.SCHED_BATCH, os.SCHED_OTHER}  # MLX's; the transport's

"""`python -m engine` as a process: its name, its threads, what it leaves to the next one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from engine import wire
from engine.__main__ import keep_kernels
from tests.engine.devices import needs_processor_kernels
from tests.engine.transport.rig import Rig
from tests.makers import make_work
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "engine")


def environment(redis_url: str, folder: Path) -> dict[str, str]:
    return {**os.environ, "REDIS_URL": redis_url, "HEARTH_DATA_DIR": str(folder)}


@contextlib.contextmanager
def engine_process(
    rig: Rig, redis_url: str, folder: Path, max_rows: int = 8, **changes: str
) -> Iterator[subprocess.Popen[bytes]]:
    path = str(tiny_model_path("tiny-qwen3"))
    rig.client.publish_models((wire.ModelSpec(name="demo", path=path, max_rows=max_rows),))
    settings = environment(redis_url, folder) | changes
    process = subprocess.Popen(COMMAND, cwd=ROOT, env=settings)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()


def ask(rig: Rig, request_id: str, token_ids: Sequence[int], *, max_tokens: int = 2) -> None:
    rig.submit(request_id, max_tokens=max_tokens)
    (entry,) = rig.intake.entries()
    work = make_work(wire.decode(entry.message))
    work = msgspec.structs.replace(work, prompt_token_ids=tuple(token_ids))
    rig.intake.admit(entry, work, wire.ModelSpec(name="demo", path="/"))


def test_kernels_that_mlx_compiles_are_kept_in_the_data_folder(tmp_path: Path) -> None:
    """Of each version of its own."""
    environ: dict[str, str] = {}
    keep_kernels(tmp_path, environ)
    assert environ == {"MLX_PTX_CACHE_DIR": str(tmp_path / "kernels" / version("mlx"))}
    environ = {"MLX_PTX_CACHE_DIR": "/elsewhere"}
    keep_kernels(tmp_path, environ)
    assert environ == {"MLX_PTX_CACHE_DIR": "/elsewhere"}


def answer_one(rig: Rig, number: int) -> None:
    rig.submit(f"r{number}", max_tokens=2)
    rig.admit_all(num_prompt_tokens=100 * number)
    wait_until(lambda: len(rig.ended()) == number, seconds=60)


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
@needs_processor_kernels
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


def test_a_second_engine_of_one_name_does_not_start(redis_url: str, tmp_path: Path) -> None:
    rig = Rig(redis_url)
    with engine_process(rig, redis_url, tmp_path):
        wait_until(lambda: rig.client.engines() != [], seconds=60)
        settings = environment(redis_url, tmp_path / "other")
        second = subprocess.run(COMMAND, cwd=ROOT, env=settings, capture_output=True, timeout=60)
        assert second.returncode == 2 and b"engine-1" in second.stderr
        answer_one(rig, 1)


def test_an_engine_has_the_name_that_its_environment_says(redis_url: str, tmp_path: Path) -> None:
    rig = Rig(redis_url)
    with engine_process(rig, redis_url, tmp_path, HEARTH_ENGINE_NAME="engine-2"):
        wait_until(lambda: [one.engine for one in rig.client.engines()] == ["engine-2"], seconds=60)


def test_an_engine_asks_first_for_what_it_has_in_memory(redis_url: str, tmp_path: Path) -> None:
    rig = Rig(redis_url)
    known = range(1, 1500)
    with engine_process(rig, redis_url, tmp_path, max_rows=1):
        ask(rig, "former", known)
        wait_until(lambda: rig.ended() == ["former"], seconds=60)
        ask(rig, "running", range(2000, 0, -1), max_tokens=300)
        wait_until(lambda: any(isinstance(one, wire.Delta) for one in rig.events("running")))
        ask(rig, "first", range(3, 1500))
        ask(rig, "second", range(2, 1500))
        ask(rig, "goes on", [*known, *range(300)])
        wait_until(lambda: len(rig.ended()) == 5)
    assert rig.ended() == ["former", "running", "first", "goes on", "second"]

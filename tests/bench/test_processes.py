"""Children end with their block, and say why they did not start."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.processes import Child, JobChild, StartFailed, free_port

WITH_GRANDCHILD = """
import subprocess, sys
one = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(one.pid, flush=True)
for line in sys.stdin:
    print(one.pid, flush=True)
"""


def test_a_child_and_its_own_children_end_with_the_block(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITH_GRANDCHILD]
    with JobChild(command, log=tmp_path / "log") as child:
        processes = [psutil.Process(child.process.pid), psutil.Process(int(child.do({})))]
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert not alive


def test_a_child_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such model')"]
    with (
        pytest.raises(StartFailed, match="no such model"),
        Child(command, log=tmp_path / "log") as child,
    ):
        child.wait_until_ready(f"http://127.0.0.1:{free_port()}/")


def test_a_job_child_that_dies_is_an_error_and_no_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('out of memory')"]
    with (
        pytest.raises(StartFailed, match="out of memory"),
        JobChild(command, log=tmp_path / "log") as child,
    ):
        child.do({})

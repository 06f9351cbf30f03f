"""Start and end: two installations side by side, Ctrl-C, and kill -9 of the supervisor."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, fresh_prompt
from tests.stack import END_SECONDS, ROOT, Stack, running_stack
from tests.tiny_models import tiny_model_path

pytestmark = pytest.mark.stack


def all_processes(stack: Stack) -> list[psutil.Process]:
    assert stack.supervisor is not None
    return psutil.Process(stack.supervisor.pid).children(recursive=True)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_two_installations_do_not_meet_and_leave_nothing_behind(stack: Stack, api_key: str) -> None:
    """One second installation for all of it: starting one costs seconds."""
    with running_stack() as second:
        status, _ = second.get("/v1/models", Authorization=f"Bearer {api_key}")
        assert status == 401
        assert {one.pid for one in all_processes(second)}.isdisjoint(
            one.pid for one in all_processes(stack)
        )
        a_second_start_is_refused(second)

        processes = all_processes(second)
        with OpenAI(
            base_url=f"{second.base_url}/v1", api_key=second.create_api_key(), max_retries=0
        ) as client:
            second.manage("add_model", str(tiny_model_path("tiny-qwen3")), "--name", "endless")
            running = RunningAnswer(client, "endless", fresh_prompt(), max_tokens=8000)
            running.wait_for_chunks(5)
            assert second.stop(signal.SIGINT) <= END_SECONDS
        assert not alive(processes)

        second.start()
        processes = all_processes(second)
        assert second.supervisor is not None
        second.supervisor.kill()
        second.supervisor.wait()
        _, left = psutil.wait_procs(processes, timeout=END_SECONDS)
        assert not alive(left)
    assert stack.readiness()[0] == 200


def a_second_start_is_refused(stack: Stack) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=stack.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "already supervised" in done.stderr


def test_a_taken_port_is_said_with_the_next_free_one(stack: Stack) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        folder = str(stack.data_dir / "other")
        done = subprocess.run(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT,
            env={**stack.environ, "PORT": port, "HEARTH_DATA_DIR": folder},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode != 0
    assert f"Port {port}" in done.stderr
    assert "PORT=" in done.stderr


def test_doctor_finds_nothing_to_mend(stack: Stack) -> None:
    assert "open files" in stack.manage("doctor")


def test_metrics_tell_of_the_engine(stack: Stack) -> None:
    status, body = stack.get("/metrics")
    assert status == 200
    assert b"hearth_engines 1.0" in body
    status, _ = stack.get("/metrics", **{"X-Forwarded-For": "203.0.113.9"})
    assert status == 403

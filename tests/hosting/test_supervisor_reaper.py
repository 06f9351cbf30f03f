"""No orphan after kill -9 of the supervisor."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

from hosting.supervisor.reaper import read_groups

ROOT = Path(__file__).resolve().parent.parent.parent
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys, time
from hosting.supervisor.reaper import Reaper
reaper = Reaper()
for _ in range(2):
    command = [sys.executable, "-c", {STUBBORN!r}]
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    reaper.watch(child.pid)
    print(child.pid, flush=True)
print(reaper.pid, flush=True)
time.sleep(600)
"""


def test_groups_are_those_watched_and_not_forgotten() -> None:
    assert read_groups(["+1\n", "+2\n", "-1\n", "+3\n"]) == {2, 3}


def test_children_end_when_their_supervisor_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert parent.stdout is not None
    with parent.stdout:
        processes = [psutil.Process(int(parent.stdout.readline())) for _ in range(3)]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]

"""A supervised process, with real small processes in place of the service's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from hosting.supervisor.child import Child
from hosting.supervisor.parts import Part
from hosting.supervisor.reaper import Reaper

PATIENCE_SECONDS = 20.0


class Lines:
    """What a child wrote; `until` waits for a line that fits."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._changed = asyncio.Event()

    def write(self, name: str, text: str) -> None:
        self.all.append(text)
        self._changed.set()

    async def until(self, fits: Callable[[str], bool], *, count: int = 1) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found := [line for line in self.all if fits(line)]) < count:
                self._changed.clear()
                await self._changed.wait()
        return found


@pytest.fixture
def lines() -> Lines:
    return Lines()


@asynccontextmanager
async def supervised(script: str, lines: Lines, folder: Path) -> AsyncIterator[Child]:
    reaper = Reaper()
    part = Part(name="part", command=(sys.executable, "-u", "-c", script), engine="engine-1")
    child = Child(part, reaper=reaper, write=lines.write, folder=str(folder))
    task = asyncio.create_task(child.run())
    try:
        yield child
    finally:
        child.end()
        child.send(signal.SIGKILL)
        await task
        reaper.close()


def says_pid(line: str) -> bool:
    return line.startswith("pid ")


async def test_a_killed_process_is_started_again(lines: Lines, tmp_path: Path) -> None:
    script = "import os, time; print('pid', os.getpid()); time.sleep(600)"
    async with supervised(script, lines, tmp_path) as child:
        await lines.until(says_pid)
        child.send(signal.SIGKILL)
        first, second = await lines.until(says_pid, count=2)
    assert first != second
    assert any("by SIGKILL" in line for line in lines.all)


async def test_a_process_that_cannot_be_started_is_tried_again(
    lines: Lines, tmp_path: Path
) -> None:
    async with supervised("", lines, tmp_path / "absent") as child:
        await lines.until(lambda line: line.startswith("could not start"), count=2)
        assert child.pid is None


async def test_a_process_that_is_asked_to_end_is_not_started_again(
    lines: Lines, tmp_path: Path
) -> None:
    script = "import os, time; print('pid', os.getpid()); time.sleep(600)"
    async with supervised(script, lines, tmp_path) as child:
        await lines.until(says_pid)
        child.end()
    assert len([line for line in lines.all if says_pid(line)]) == 1


async def test_the_end_does_not_wait_for_a_back_off(lines: Lines, tmp_path: Path) -> None:
    async with supervised("raise SystemExit(3)", lines, tmp_path) as child:
        await lines.until(lambda line: "with exit code 3" in line, count=3)
        async with asyncio.timeout(5):
            child.end()


async def test_what_a_process_has_started_does_not_outlive_it(lines: Lines, tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('pid', inner.pid)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    async with supervised(script, lines, tmp_path):
        told = await lines.until(says_pid)
        await lines.until(lambda line: "by SIGKILL" in line)
        inner = int(told[0].split()[1])
        assert await asyncio.to_thread(has_gone, inner)


def has_gone(pid: int) -> bool:
    """Within a moment. A zombie that nobody has collected is gone too."""
    try:
        _, alive = psutil.wait_procs([psutil.Process(pid)], timeout=5)
        return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)
    except psutil.NoSuchProcess:
        return True


async def test_a_very_long_line_does_not_stop_the_log(lines: Lines, tmp_path: Path) -> None:
    script = "print('x' * 5_000_000); print('after'); import time; time.sleep(600)"
    async with supervised(script, lines, tmp_path):
        await lines.until(lambda line: line == "after")


async def test_a_stopped_process_can_be_ended(lines: Lines, tmp_path: Path) -> None:
    script = "import os, time; print('pid', os.getpid()); time.sleep(600)"
    async with supervised(script, lines, tmp_path) as child:
        await lines.until(says_pid)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        child.end()
    assert not any("SIGKILL" in line for line in lines.all)

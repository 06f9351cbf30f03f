"""Readings of memory as recorded on other machines, and this one's own."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import struct
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import psutil
import pytest

from engine.model.machine import (
    LinuxMachine,
    MacMachine,
    cgroup_limits,
    parse_footprint,
    process_usage,
    this_machine,
)
from engine.model.memory import (
    DeviceMemory,
    automatic_ceiling,
    device_bytes,
    others_on_device,
)

GIB = 1024**3
MEMINFO = "MemTotal:       65536000 kB\nMemAvailable: 32768000 kB\nHugePages_Total: 0\n"


def linux(root: Path, files: dict[str, str]) -> Path:
    recorded = {"proc/meminfo": MEMINFO, "proc/self/statm": "9000 2500 700 1 0 800 0\n"} | files
    for name, text in recorded.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_cgroups_has_its_ram(tmp_path: Path) -> None:
    machine = LinuxMachine(linux(tmp_path, {}))
    assert machine.total_bytes == 65536000 * 1024
    assert machine.process_bytes() == 2500 * 4096
    assert machine.others_bytes() == 32768000 * 1024 - 2500 * 4096


V2, V1 = (
    "0::/user.slice/hearth.service\n",
    "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
)


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        ({"proc/self/cgroup": V2}, []),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/memory.max": "max\n"}, []),
        (
            {
                "proc/self/cgroup": V2,
                "sys/fs/cgroup/user.slice/hearth.service/memory.max": "max\n",
                "sys/fs/cgroup/user.slice/memory.max": f"{8 * GIB}\n",
            },
            [8 * GIB],
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{4 * GIB}\n"}, [4 * GIB]),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            [2 * GIB],
        ),
        # in a container: the path is the outside's, the mount is the cgroup
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GIB}\n",
            },
            [3 * GIB],
        ),
    ],
)
def test_the_limit_is_that_of_the_cgroup_and_of_those_around_it(
    tmp_path: Path, files: dict[str, str], limits: list[int]
) -> None:
    root = linux(tmp_path, files)
    assert list(cgroup_limits(root)) == limits
    assert LinuxMachine(root).total_bytes == min([65536000 * 1024, *limits])


def test_macos_counts_the_footprint() -> None:
    fields = [7] * 18
    fields[6], fields[7] = 5 * GIB, 3 * GIB  # resident, footprint
    usage = struct.pack("=16s18Q", b"u" * 16, *fields)
    assert parse_footprint(usage) == 3 * GIB
    assert MacMachine(lambda: usage).process_bytes() == 3 * GIB


class LibProc:
    """macOS's library, as it answers for a process of 3 GiB. Flavour 2 is rusage_info_v2."""

    def __init__(self, result: int = 0) -> None:
        self._result = result

    def proc_pid_rusage(self, pid: int, flavour: int, buffer: Any) -> int:
        assert (pid, flavour, len(buffer)) == (os.getpid(), 2, 16 + 18 * 8)
        struct.pack_into("=16s8Q", buffer, 0, b"u" * 16, 1, 2, 3, 4, 5, 6, 5 * GIB, 3 * GIB)
        return self._result


@dataclasses.dataclass(frozen=True)
class Ram:
    total: int = 64 * GIB
    available: int = 41 * GIB


def test_metal_has_its_working_set_and_counts_the_footprint() -> None:
    before_bytes = mx.set_memory_limit(1 << 60)
    machine = MacMachine(lambda: process_usage(LibProc()), Ram)
    apple = {"device_name": "Apple M3 Max", "max_recommended_working_set_size": 48 * GIB}
    memory = DeviceMemory(machine=machine, kind="metal", read_info=lambda: apple)
    assert mx.set_memory_limit(before_bytes) == 48 * GIB
    assert (memory.device, memory.ceiling_bytes) == ("Apple M3 Max", 48 * GIB)
    readings = memory.read()
    assert (readings.process_bytes, readings.others_bytes) == (3 * GIB, 20 * GIB)
    assert DeviceMemory(explicit_ceiling_bytes=GIB, machine=machine).ceiling_bytes == GIB
    assert DeviceMemory(explicit_ceiling_bytes=GIB, share=0.5, machine=machine).ceiling_bytes == GIB
    mx.set_memory_limit(before_bytes)


def test_macos_that_does_not_answer_is_an_error_and_no_zero() -> None:
    with pytest.raises(OSError, match="proc_pid_rusage"):
        process_usage(LibProc(result=-1))


def test_this_machine_reads_about_what_psutil_reads() -> None:
    machine = this_machine()
    rss = psutil.Process().memory_info().rss
    assert rss / 10 < machine.process_bytes() < machine.total_bytes
    if sys.platform == "linux":  # a Mac's footprint has the GPU's buffers and no shared libraries
        assert machine.process_bytes() == pytest.approx(rss, rel=0.3)
    assert 0 < machine.total_bytes <= psutil.virtual_memory().total
    assert 0 <= machine.others_bytes() < psutil.virtual_memory().total


def test_the_automatic_ceiling_is_the_smaller_of_machine_and_device() -> None:
    apple = {"device_name": "Apple M3 Max", "max_recommended_working_set_size": 48 * GIB}
    nvidia = {"device_name": "H200", "total_memory": 139 * GIB, "free_memory": 100 * GIB}
    assert automatic_ceiling(64 * GIB, device_bytes(apple)) == 48 * GIB
    assert automatic_ceiling(36 * GIB, device_bytes(apple)) == 34 * GIB
    assert automatic_ceiling(512 * GIB, device_bytes(nvidia)) == 139 * GIB
    assert automatic_ceiling(4 * GIB, device_bytes({})) == 3 * GIB


def test_others_on_a_gpu_are_told_and_do_not_lower_the_ceiling() -> None:
    nvidia = {"total_memory": 80 * GIB, "free_memory": 20 * GIB}
    assert others_on_device(nvidia, own_bytes=50 * GIB) == 10 * GIB
    assert others_on_device(nvidia, own_bytes=70 * GIB) == 0
    assert device_bytes(nvidia) == 80 * GIB


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has nothing to give back"
)
def test_what_was_freed_below_something_kept_goes_to_the_system_when_asked() -> None:
    machine = this_machine()
    blocks = [bytes([1]) * 60_000 for _ in range(1000)]
    kept = blocks.pop()
    blocks.clear()
    before_bytes = machine.process_bytes()
    machine.give_back()
    assert before_bytes - machine.process_bytes() > 40_000_000
    assert kept

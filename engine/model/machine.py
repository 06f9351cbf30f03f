"""What the machine has and what this process takes of it: Linux with its cgroups, and macOS.

It reads; what follows from it is memory.py's. Linux is read below a root, macOS through a call,
both of which can be given.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import psutil

_RUSAGE_INFO_V2, _RUSAGE_BYTES = 2, 16 + 18 * 8
_FOOTPRINT_OFFSET = 16 + 7 * 8  # behind the uuid: seven numbers, then ri_phys_footprint
_NO_LIMIT_BYTES = 1 << 60  # cgroup v1 says "none" by a number about as large as there are

ReadUsage = Callable[[], bytes]
ReadRam = Callable[[], Any]  # psutil's: it asks sysctl and the kernel's page counts on macOS


class Machine(Protocol):
    @property
    def total_bytes(self) -> int:
        """What this process may use at all: the RAM, or less where a cgroup says so."""
        ...

    def process_bytes(self) -> int: ...
    def others_bytes(self) -> int:
        """What everybody else has in use."""
        ...

    def give_back(self) -> None:
        """What was freed and is kept by the C library goes to the system."""
        ...


class LinuxMachine:
    """`root`: where /proc and /sys are."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self.total_bytes = min([self._meminfo()["MemTotal"], *cgroup_limits(root)])

    def process_bytes(self) -> int:
        _, resident_pages, *_ = (self._root / "proc/self/statm").read_text().split()
        return int(resident_pages) * os.sysconf("SC_PAGE_SIZE")

    def others_bytes(self) -> int:
        memory = self._meminfo()
        return max(0, memory["MemTotal"] - memory["MemAvailable"] - self.process_bytes())

    def give_back(self) -> None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(0)

    def _meminfo(self) -> dict[str, int]:
        return parse_meminfo((self._root / "proc/meminfo").read_text())


class MacMachine:
    """The footprint is what macOS itself counts against a process: compressed pages and the GPU's
    buffers are in it, shared libraries are not."""

    def __init__(
        self, read_usage: ReadUsage | None = None, read_ram: ReadRam = psutil.virtual_memory
    ) -> None:
        self._read_usage = read_usage or process_usage
        self._read_ram = read_ram
        self.total_bytes = int(read_ram().total)

    def process_bytes(self) -> int:
        return parse_footprint(self._read_usage())

    def others_bytes(self) -> int:
        memory = self._read_ram()
        return max(0, int(memory.total - memory.available) - self.process_bytes())

    def give_back(self) -> None:
        """macOS takes it when it needs it."""


def this_machine() -> Machine:
    return MacMachine() if sys.platform == "darwin" else LinuxMachine()


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) >= 2}


def parse_footprint(usage: bytes) -> int:
    """ri_phys_footprint of a rusage_info_v2 (sys/resource.h of macOS)."""
    (footprint,) = struct.unpack_from("=Q", usage, _FOOTPRINT_OFFSET)
    return int(footprint)


def cgroup_limits(root: Path) -> Iterator[int]:
    """Of the process's cgroup and those around it, version 1 and 2."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _limits_upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            where = root / "sys/fs/cgroup/memory"
            yield from _limits_upwards(where, path, "memory.limit_in_bytes")


def _limits_upwards(mount: Path, path: str, name: str) -> Iterator[int]:
    """In a container the mount is the cgroup itself, whatever its path is called outside."""
    inner = PurePosixPath(path.lstrip("/"))
    for part in [inner, *inner.parents]:
        try:
            text = (mount / part / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _NO_LIMIT_BYTES:
            yield int(text)


def process_usage(library: Any = None) -> bytes:
    """A rusage_info_v2 of this process. `library`: None means macOS's own libproc."""
    buffer = ctypes.create_string_buffer(_RUSAGE_BYTES)
    library = library or ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True)
    if library.proc_pid_rusage(os.getpid(), _RUSAGE_INFO_V2, buffer) != 0:
        raise OSError(ctypes.get_errno(), "proc_pid_rusage")
    return buffer.raw

"""What memory the engine uses and may use: one small seam for Metal, CUDA and CPU.

It decides nothing; guard.py does.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

import mlx.core as mx
import psutil

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_RESERVE_BYTES = 2 * 1024**3  # for the system and the other processes of the service
_LARGEST_RESERVE_FRACTION = 0.25
_POOL_FRACTION = 0.25


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReadings:
    active_bytes: int = 0
    pool_bytes: int = 0
    peak_bytes: int = 0
    process_bytes: int = 0


class Memory(Protocol):
    @property
    def device(self) -> str: ...
    @property
    def ceiling_bytes(self) -> int: ...
    def read(self) -> MemoryReadings: ...
    def read_device(self) -> MemoryReadings: ...
    def clear_pool(self) -> None: ...


class PeakMeter:
    """MLX keeps one peak for all; whoever measures a step begins it anew."""

    def __init__(self) -> None:
        self._highest_bytes = 0

    def begin(self) -> int:
        """What is in use now; the peak starts there."""
        self._highest_bytes = max(self._highest_bytes, mx.get_peak_memory())
        mx.reset_peak_memory()
        return mx.get_active_memory()

    def highest_bytes(self) -> int:
        """Since `begin`."""
        return mx.get_peak_memory()

    def highest_ever_bytes(self) -> int:
        self._highest_bytes = max(self._highest_bytes, mx.get_peak_memory())
        return self._highest_bytes


class DeviceMemory:
    """The memory of MLX's default device. `ceiling_bytes` does not move: a request that fits today
    fits tomorrow, whatever else runs on the machine.
    """

    def __init__(self, *, explicit_ceiling_bytes: int | None = None):
        info = mx.device_info()
        self.peaks = PeakMeter()
        self._process = psutil.Process()
        self.is_cpu = mx.default_device() == mx.Device(mx.cpu)
        self.device = "cpu" if self.is_cpu else str(info.get("device_name", "gpu"))
        self.ceiling_bytes = explicit_ceiling_bytes or _automatic_ceiling(
            None if self.is_cpu else _device_bytes(info)
        )
        mx.set_cache_limit(int(self.ceiling_bytes * _POOL_FRACTION))

    def read(self) -> MemoryReadings:
        return MemoryReadings(
            active_bytes=mx.get_active_memory(),
            pool_bytes=mx.get_cache_memory(),
            peak_bytes=self.peaks.highest_ever_bytes(),
            process_bytes=self._process.memory_info().rss,
        )

    def read_device(self) -> MemoryReadings:
        """What can be read at every turn: without the process's own size."""
        return MemoryReadings(active_bytes=mx.get_active_memory(), pool_bytes=mx.get_cache_memory())

    def clear_pool(self) -> None:
        """Give unused buffers back to the system, once nothing computes (Metal dies otherwise)."""
        mx.synchronize()
        mx.clear_cache()


def _automatic_ceiling(device_bytes: int | None) -> int:
    """The smaller of what the machine (or its cgroup) has, less a reserve, and what the GPU has."""
    total = min([psutil.virtual_memory().total, *_cgroup_limits()])
    of_machine = total - min(_RESERVE_BYTES, int(total * _LARGEST_RESERVE_FRACTION))
    return int(min(of_machine, device_bytes) if device_bytes else of_machine)


def _device_bytes(info: dict[str, str | int]) -> int | None:
    """Metal's recommended working set, or a CUDA device's total."""
    for name in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        if value := info.get(name):
            return int(value)
    return None


def _cgroup_limits() -> list[int]:
    texts = [path.read_text().strip() for path in _CGROUP_LIMITS if path.exists()]
    return [int(text) for text in texts if text.isdigit()]

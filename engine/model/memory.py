"""What memory the engine uses and may use: one small seam for Metal, CUDA and CPU.

It decides nothing; guard.py does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import mlx.core as mx

from engine.model.machine import Machine, this_machine

_RESERVE_BYTES = 2 * 1024**3  # for the system and the other processes of the service
_LARGEST_RESERVE_FRACTION = 0.25
_POOL_FRACTION = 0.25
_TOGETHER_FRACTION = 1 / 64

DeviceKind = Literal["cpu", "cuda", "metal"]
DeviceInfo = Mapping[str, str | int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReadings:
    """`others_bytes`: what other programs have in use there. It is told, and changes no limit."""

    active_bytes: int = 0
    pool_bytes: int = 0
    peak_bytes: int = 0
    process_bytes: int = 0
    others_bytes: int = 0


class Memory(Protocol):
    @property
    def device(self) -> str: ...
    @property
    def ceiling_bytes(self) -> int: ...
    @property
    def together_bytes(self) -> int: ...
    def read(self) -> MemoryReadings: ...
    def read_device(self) -> MemoryReadings: ...
    def set_limit(self, limit_bytes: int) -> None: ...
    def bound_buffers(self, most_bytes: int) -> None: ...
    def clear_buffers(self) -> None: ...


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

    def forget(self) -> None:
        """What was highest up to now."""
        mx.reset_peak_memory()
        self._highest_bytes = 0

    def highest_ever_bytes(self) -> int:
        self._highest_bytes = max(self._highest_bytes, mx.get_peak_memory())
        return self._highest_bytes


class DeviceMemory:
    """The memory of MLX's default device. `ceiling_bytes` does not move: a request that fits today
    fits tomorrow, whatever else runs on the machine.
    """

    def __init__(
        self,
        *,
        explicit_ceiling_bytes: int | None = None,
        share: float = 1.0,
        machine: Machine | None = None,
        kind: DeviceKind | None = None,
        read_info: Callable[[], DeviceInfo] | None = None,
    ):
        """None: `share` of what this machine and MLX say."""
        self.peaks = PeakMeter()
        self.kind = kind or device_kind()
        self._machine = machine or this_machine()
        self._read_info = read_info or _info
        info = {} if self.is_cpu else self._read_info()
        self.device = "cpu" if self.is_cpu else str(info.get("device_name", "gpu"))
        self.ceiling_bytes = explicit_ceiling_bytes or int(
            share * automatic_ceiling(self._machine.total_bytes, device_bytes(info))
        )
        self.set_limit(self.ceiling_bytes)

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def together_bytes(self) -> int:
        """How much of what is copied may be alive twice. A CPU is not waited for: there nothing is,
        but the array that is being copied."""
        return 0 if self.is_cpu else int(self.ceiling_bytes * _TOGETHER_FRACTION)

    def set_limit(self, limit_bytes: int) -> None:
        """Near it MLX submits no further ahead of the device, and lets go of unused buffers."""
        mx.set_memory_limit(limit_bytes)
        self._pool_bound = -1
        self._most_pool_bytes = int(limit_bytes * _POOL_FRACTION)
        self.bound_buffers(self._most_pool_bytes)

    def bound_buffers(self, most_bytes: int) -> None:
        """What is unused beyond that goes back when MLX allocates next."""
        bound = max(0, min(most_bytes, self._most_pool_bytes))
        if bound != self._pool_bound:
            mx.set_cache_limit(bound)
            self._pool_bound = bound

    def read(self) -> MemoryReadings:
        active_bytes, pool_bytes = mx.get_active_memory(), mx.get_cache_memory()
        others_bytes = self._machine.others_bytes()
        if self.kind == "cuda":
            others_bytes = others_on_device(self._read_info(), own_bytes=active_bytes + pool_bytes)
        return MemoryReadings(
            active_bytes=active_bytes,
            pool_bytes=pool_bytes,
            peak_bytes=self.peaks.highest_ever_bytes(),
            process_bytes=self._machine.process_bytes(),
            others_bytes=others_bytes,
        )

    def read_device(self) -> MemoryReadings:
        """What can be read at every turn: without asking the system."""
        return MemoryReadings(active_bytes=mx.get_active_memory(), pool_bytes=mx.get_cache_memory())

    def obtainable_bytes(self) -> int | None:
        """What a device of its own memory would still give; None where the system swaps first."""
        if self.kind != "cuda":
            return None
        return int(self._read_info().get("free_memory", 0)) + mx.get_cache_memory()

    def clear_buffers(self) -> None:
        """Give unused buffers back to the system, once nothing computes (Metal dies otherwise)."""
        mx.synchronize()
        mx.clear_cache()

    def give_back(self) -> None:
        """The same, and what the process itself keeps: it costs some time, for after an unload."""
        self.clear_buffers()
        self._machine.give_back()


def device_kind() -> DeviceKind:
    if mx.default_device() == mx.Device(mx.cpu):
        return "cpu"
    return "cuda" if mx.cuda.is_available() else "metal"


def automatic_ceiling(machine_bytes: int, device_bytes: int | None) -> int:
    """The smaller of what the machine has, less a reserve, and what the device has."""
    reserve_bytes = min(_RESERVE_BYTES, int(machine_bytes * _LARGEST_RESERVE_FRACTION))
    of_machine = machine_bytes - reserve_bytes
    return min(of_machine, device_bytes) if device_bytes else of_machine


def device_bytes(info: DeviceInfo) -> int | None:
    """Metal's recommended working set, or a CUDA device's total."""
    for name in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        if value := info.get(name):
            return int(value)
    return None


def others_on_device(info: DeviceInfo, *, own_bytes: int) -> int:
    """What other programs take of a CUDA device."""
    used_bytes = int(info.get("total_memory", 0)) - int(info.get("free_memory", 0))
    return max(0, used_bytes - own_bytes)


def _info() -> DeviceInfo:
    info: DeviceInfo = mx.device_info()
    return info

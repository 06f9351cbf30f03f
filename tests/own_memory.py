"""The device's memory as if the process had begun now: what other tests hold does not count."""

from __future__ import annotations

import dataclasses
import gc

import mlx.core as mx

from engine.model.memory import DeviceMemory, MemoryReadings


class OwnMemory(DeviceMemory):
    def __init__(self, *, ceiling_bytes: int) -> None:
        gc.collect()
        mx.clear_cache()
        self._before_bytes = mx.get_active_memory()
        super().__init__(explicit_ceiling_bytes=ceiling_bytes)

    def set_limit(self, limit_bytes: int) -> None:
        super().set_limit(limit_bytes)
        mx.set_memory_limit(limit_bytes + self._before_bytes)

    def read(self) -> MemoryReadings:
        readings = self._own(super().read())
        return dataclasses.replace(
            readings, peak_bytes=max(0, readings.peak_bytes - self._before_bytes)
        )

    def read_device(self) -> MemoryReadings:
        return self._own(super().read_device())

    def _own(self, readings: MemoryReadings) -> MemoryReadings:
        return dataclasses.replace(
            readings, active_bytes=max(0, readings.active_bytes - self._before_bytes)
        )

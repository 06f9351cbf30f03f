"""The parts of an engine between its transport and its device, handed to each other.

Importing it imports mlx_lm, which changes the process's limits.
"""

from __future__ import annotations

from engine.config import EngineConfig
from engine.core.pacing import TimeLedger
from engine.guard import MemoryGuard
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.pool import ModelPool
from engine.prefixes import Prefixes
from engine.shelf import DeviceShelf
from engine.worker import Worker, WorkTransport


def build_worker(
    config: EngineConfig,
    *,
    transport: WorkTransport,
    memory: DeviceMemory,
    vitals: Vitals,
    prefixes: Prefixes,
) -> Worker:
    """A worker that serves nothing until its transport brings a Configure."""
    shelf = DeviceShelf(
        memory,
        ledger=TimeLedger(),
        vitals=vitals,
        prefixes=prefixes.cache,
        casts_to_float32=memory.is_cpu and not config.keeps_cpu_dtype,
    )
    guard = MemoryGuard(
        ceiling_bytes=memory.ceiling_bytes, is_explicit=config.memory_limit_bytes is not None
    )
    pool = ModelPool(shelf, guard)
    return Worker(
        transport=transport, pool=pool, vitals=vitals, memory=memory, prefixes=prefixes.cache
    )

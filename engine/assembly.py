"""The parts of an engine between its transport and its device, handed to each other.

Importing it imports mlx_lm, which changes the process's limits.
"""

from __future__ import annotations

from engine.at_work import AtWork
from engine.config import EngineConfig
from engine.core.pacing import TimeLedger
from engine.estimates import Estimates, estimates_file
from engine.guard import LOST_ESTIMATES, MemoryGuard
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.model_folders import ModelFolders
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
    at_work: AtWork | None = None,
) -> Worker:
    """A worker that serves nothing until its transport brings a Configure. `at_work` None: nothing
    is noted."""
    guard = MemoryGuard(
        ceiling_bytes=memory.ceiling_bytes, is_explicit=config.memory_limit_bytes is not None
    )
    estimates = Estimates(
        estimates_file(config),
        device=memory.kind,
        note_lost=lambda: guard.counts.update([LOST_ESTIMATES]),
    )
    shelf = DeviceShelf(
        memory,
        ledger=TimeLedger(),
        vitals=vitals,
        prefixes=prefixes.cache,
        estimates=estimates,
        casts_to_float32=memory.is_cpu and not config.keeps_cpu_dtype,
        at_work=at_work,
    )
    folders = ModelFolders(config.model_folders)
    pool = ModelPool(shelf, guard, at_work=at_work, folders=folders)
    return Worker(
        transport=transport, pool=pool, vitals=vitals, memory=memory, prefixes=prefixes.cache
    )

"""What the heartbeat says of memory: the guard's verdict beside where the bytes are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from engine import wire
from engine.guard import LOST_ESTIMATES, MemoryGuard
from engine.model.memory import MemoryReadings
from engine.sizing.estimate import Estimate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Of a model that need not be loaded. `estimate` is None for what keeps no rows."""

    weight_bytes: int
    estimate: Estimate | None


def memory_status(
    guard: MemoryGuard,
    readings: MemoryReadings,
    *,
    weight_bytes: int,
    row_bytes: int,
    tier_bytes: int,
    models: tuple[wire.ModelMemory, ...] = (),
) -> wire.MemoryStatus:
    return wire.MemoryStatus(
        limit_bytes=guard.limit_bytes,
        level=guard.level,
        is_limit_explicit=guard.is_limit_explicit,
        tight_bytes=guard.tight_bytes,
        critical_bytes=guard.critical_bytes,
        used_bytes=readings.active_bytes + readings.pool_bytes,
        weight_bytes=weight_bytes,
        row_bytes=row_bytes,
        tier_bytes=tier_bytes,
        pool_bytes=readings.pool_bytes,
        process_bytes=readings.process_bytes,
        others_bytes=readings.others_bytes,
        num_lost_estimates=guard.counts[LOST_ESTIMATES],
        num_loads=guard.counts["load"],
        num_unloads=guard.counts["unload"],
        num_preempted=guard.counts["preempt"],
        num_refused=guard.counts["refusal"],
        num_failed=guard.counts["failure"],
        marks=tuple(guard.marks),
        models=models,
    )


def model_memories(
    specs: Mapping[str, wire.ModelSpec],
    sizes: Mapping[str, ModelSize],
    loaded: Mapping[str, int],
    *,
    limit_bytes: int,
) -> tuple[wire.ModelMemory, ...]:
    """What every model needs and has room for. `loaded`: weights of those that are."""
    weights = {name: loaded.get(name, size.weight_bytes) for name, size in sizes.items()}
    pinned = {name for name in sizes if specs[name].is_pinned}
    pinned_bytes = sum(weights[name] for name in pinned)

    def room_bytes(name: str) -> int:
        others_bytes = pinned_bytes - (weights[name] if name in pinned else 0)
        return min(limit_bytes - others_bytes, specs[name].ceiling_bytes(limit_bytes))

    return tuple(
        _model_memory(
            name,
            size.estimate,
            weight_bytes=weights[name],
            room_bytes=room_bytes(name) - weights[name],
            is_loaded=name in loaded,
            is_pinned=name in pinned,
        )
        for name, size in sizes.items()
    )


def _model_memory(
    name: str,
    estimate: Estimate | None,
    *,
    weight_bytes: int,
    room_bytes: int,
    is_loaded: bool,
    is_pinned: bool,
) -> wire.ModelMemory:
    """`estimate` None: the model keeps no rows."""
    memory = wire.ModelMemory(
        name=name,
        weight_bytes=weight_bytes,
        room_bytes=room_bytes,
        is_loaded=is_loaded,
        is_pinned=is_pinned,
    )
    if estimate is None:
        return memory
    return wire.replace(
        memory,
        needs=estimate.needs(),
        compute_bytes=estimate.numbers.compute_bytes,
        may_fuse=estimate.numbers.may_fuse,
        together_bytes=estimate.numbers.together_bytes,
        correction=estimate.correction,
    )

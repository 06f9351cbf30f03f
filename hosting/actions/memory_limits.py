"""The memory that engines may use, as administrators set it while they run."""

from __future__ import annotations

from hosting.models import MemoryLimit


def memory_limits() -> dict[str, int]:
    """Bytes by engine name, of those that have a limit set."""
    return dict(MemoryLimit.objects.values_list("engine", "limit_bytes"))


def set_memory_limit(engine: str, limit_bytes: int | None) -> int | None:
    """None: what the engine started with. Returns what was set before."""
    before = memory_limits().get(engine)
    if limit_bytes is None:
        MemoryLimit.objects.filter(engine=engine).delete()
    else:
        MemoryLimit.objects.update_or_create(engine=engine, defaults={"limit_bytes": limit_bytes})
    return before

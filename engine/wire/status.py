"""What an engine says of itself, once a second."""

from __future__ import annotations

import msgspec

from engine.wire.message import Message, Part
from engine.wire.parts import Correction, Level, PrefixUse, RowNeeds


class RowStatus(Part, frozen=True, kw_only=True):
    """One live request. `state` is waiting | restoring | prefilling | decoding."""

    request_id: str
    model: str
    tenant: str
    state: str
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    output_tokens: int
    age_seconds: float
    prefix: PrefixUse | None = None


class ModelStatus(Part, frozen=True, kw_only=True):
    """`state` is loading | loaded | failed. Bytes are those of the weights, the fraction is of a
    load. `wants_boundaries`: of use is what intake finds of them (Work.boundaries). Of
    `drafted_tokens`, from the load on, so many were accepted."""

    name: str
    state: str
    weight_bytes: int = 0
    context_limit_tokens: int = 0
    is_batchable: bool = True
    wants_boundaries: bool = True
    detail: str = ""
    loaded_fraction: float | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0


class ModelCacheStatus(Part, frozen=True, kw_only=True):
    """One model's prefixes. What lies in the tiers is as it is now, the rest counts from the
    engine's start. `hit_*_tokens` were really skipped; `misses`: reason -> lookups that ended so,
    `missed_tokens`: reason -> tokens that were computed because of it.
    """

    model: str
    num_lookups: int = 0
    looked_up_tokens: int = 0
    hit_memory_tokens: int = 0
    hit_disk_tokens: int = 0
    misses: dict[str, int] = msgspec.field(default_factory=dict)
    missed_tokens: dict[str, int] = msgspec.field(default_factory=dict)
    memory_bytes: int = 0
    disk_bytes: int = 0


class MemoryTierStatus(Part, frozen=True, kw_only=True):
    """Prefixes in RAM. `pinned_bytes`: of live rows and published prompts; they stay."""

    budget_bytes: int
    used_bytes: int = 0
    pinned_bytes: int = 0
    num_records: int = 0
    num_evicted: int = 0


class DiskTierStatus(Part, frozen=True, kw_only=True):
    """Prefixes on disk, counted from the engine's start unless named otherwise.

    `num_saved` were handed to the writer; each is persisted, dropped, or one of `num_queued`.
    `num_late_restores` met their deadline with less than was wanted. `written_today_bytes` counts
    the UTC day, restarts included. `hindrance`: why the last record was not written; empty when it
    was.
    """

    budget_bytes: int
    used_bytes: int = 0
    num_records: int = 0
    num_evicted: int = 0
    num_saved: int = 0
    num_persisted: int = 0
    num_dropped: int = 0
    num_queued: int = 0
    queued_bytes: int = 0
    written_bytes: int = 0
    written_today_bytes: int = 0
    daily_write_bytes: int = 0
    read_bytes: int = 0
    num_restores: int = 0
    num_late_restores: int = 0
    restore_seconds: float = 0.0
    slowest_restore_seconds: float = 0.0
    num_corrupt: int = 0
    num_read_errors: int = 0
    num_write_errors: int = 0
    last_error: str = ""
    hindrance: str = ""


class CacheStatus(Part, frozen=True, kw_only=True):
    """The prefix cache. `disk` is None where that tier is off."""

    memory: MemoryTierStatus
    disk: DiskTierStatus | None = None
    models: tuple[ModelCacheStatus, ...] = ()


class MemoryMark(Part, frozen=True, kw_only=True):
    """Something that changed the memory. `kind`: load | unload | preempt |
    refusal | failure | exhaustion | limit."""

    kind: str
    at: float
    model: str = ""
    num_bytes: int = 0


class ModelMemory(Part, frozen=True, kw_only=True):
    """What a registered model needs, loaded or not, and what its rows may have at most.

    `room_bytes`: the limit less its weights and those of other pinned models; what the row of a
    request must fit into, alone, to be ever served. `needs` is None where nothing is known.
    How it is computed there: in `compute_bytes` an element, with fused attention or without, with
    `together_bytes` of what is copied alive twice, and `correction` as measured there so far.
    """

    name: str
    weight_bytes: int
    room_bytes: int
    needs: RowNeeds | None = None
    is_loaded: bool = False
    is_pinned: bool = False
    compute_bytes: int = 2
    may_fuse: bool = True
    together_bytes: int = 0
    correction: Correction | None = None


class MemoryStatus(Part, frozen=True, kw_only=True):
    """The guard's readings. `used_bytes` = weights + rows + memory tier + pool, and the rest of
    what is computed with; what counts against `limit_bytes`.

    `others_bytes`: what other programs have in use on the same device; it is told and changes
    nothing. `num_lost_estimates`: how often what was learned of models could not be read.
    TIGHT begins at `tight_bytes`, CRITICAL at `critical_bytes`. `num_*` count from the engine's
    start; `marks` are the last ones, oldest first.
    """

    limit_bytes: int
    level: Level = Level.CALM
    is_limit_explicit: bool = False
    tight_bytes: int = 0
    critical_bytes: int = 0
    used_bytes: int = 0
    weight_bytes: int = 0
    row_bytes: int = 0
    tier_bytes: int = 0
    pool_bytes: int = 0
    process_bytes: int = 0
    others_bytes: int = 0
    num_lost_estimates: int = 0
    num_loads: int = 0
    num_unloads: int = 0
    num_preempted: int = 0
    num_refused: int = 0
    num_failed: int = 0
    marks: tuple[MemoryMark, ...] = ()
    models: tuple[ModelMemory, ...] = ()


class EngineStatus(Message, frozen=True, kw_only=True):
    """An engine's heartbeat, once a second. Times are Unix times.

    `stalled_seconds`: how long it has had work without computing a token, 0 when idle or moving.
    """

    engine: str
    pid: int
    started_at: float
    beat_at: float
    stalled_seconds: float
    device: str
    active_bytes: int
    pool_bytes: int
    peak_bytes: int
    process_bytes: int
    decode_tokens_per_second: float
    prefill_tokens_per_second: float
    generated_tokens: int
    models: tuple[ModelStatus, ...] = ()
    rows: tuple[RowStatus, ...] = ()
    cache: CacheStatus | None = None
    memory: MemoryStatus | None = None

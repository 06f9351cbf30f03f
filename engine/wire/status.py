"""What an engine says of itself, once a second."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowStatus:
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """`state` is loading | loaded | failed. Bytes are those of the weights."""

    name: str
    state: str
    weight_bytes: int = 0
    context_limit_tokens: int = 0
    is_batchable: bool = True
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
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

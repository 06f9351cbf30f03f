"""Messages of the wire with everything filled in that a test does not care about."""

from __future__ import annotations

import time
from typing import Any

from engine import wire


def make_generate(request_id: str, **changes: Any) -> wire.Generate:
    has_prompt = "prompt" in changes or "prompt_token_ids" in changes
    values: dict[str, Any] = {
        "model": "demo",
        "tenant": "user:1",
        "priority": wire.Priority.API,
        "submitted_at": time.time(),
        "sampling": wire.Sampling(seed=1),
        "messages": None if has_prompt else ({"role": "user", "content": "Hello"},),
    }
    return wire.Generate(request_id=request_id, **(values | changes))


def make_work(generate: wire.Generate, *, num_prompt_tokens: int = 4) -> wire.Work:
    return wire.Work(
        request_id=generate.request_id,
        model=generate.model,
        tenant=generate.tenant,
        priority=generate.priority,
        submitted_at=generate.submitted_at,
        accepted_at=time.time(),
        sampling=generate.sampling,
        prompt_token_ids=tuple(range(num_prompt_tokens)),
        max_tokens=generate.max_tokens or 256,
        deadline_at=time.time() + generate.deadline_seconds if generate.deadline_seconds else None,
    )


def make_delta(*token_ids: int) -> wire.Delta:
    text = "".join(f"<{token_id}>" for token_id in token_ids)
    return wire.Delta(channel=wire.Channel.CONTENT, text=text, token_ids=token_ids)


def make_finished(*, prompt_tokens: int = 4, completion_tokens: int = 0) -> wire.Finished:
    return wire.Finished(
        reason=wire.FinishReason.STOP,
        usage=wire.Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens),
        timings=wire.Timings(),
    )


def make_status(engine: str = "engine-1", **changes: Any) -> wire.EngineStatus:
    values: dict[str, Any] = {
        "pid": 1,
        "started_at": 0.0,
        "beat_at": time.time(),
        "stalled_seconds": 0.0,
        "device": "cpu",
        "active_bytes": 0,
        "pool_bytes": 0,
        "peak_bytes": 0,
        "process_bytes": 0,
        "decode_tokens_per_second": 0.0,
        "prefill_tokens_per_second": 0.0,
        "generated_tokens": 0,
    }
    return wire.EngineStatus(engine=engine, **(values | changes))

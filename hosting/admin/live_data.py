"""What the live page shows, as one JSON value: engines by their heartbeat, open requests by person.

Joins what the engines and the queue say with the Generation rows. It never says what was asked.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from django.utils import timezone

from engine import wire
from hosting.admin.cache_figures import prefix_words
from hosting.admin.load_failures import explanation
from hosting.admin.notices import NO_REDIS, is_stalled, notice_of
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation
from hosting.readiness import beat_age_seconds

MAX_REQUESTS = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What Redis knew at one moment. `rows`, `engine_of` and `places` are by request_id; `loading`
    are models that are being loaded."""

    has_redis: bool
    engines: tuple[wire.EngineStatus, ...] = ()
    rows: dict[str, wire.RowStatus] = dataclasses.field(default_factory=dict)
    engine_of: dict[str, str] = dataclasses.field(default_factory=dict)
    places: dict[str, int] = dataclasses.field(default_factory=dict)
    loading: frozenset[str] = frozenset()


def live_data() -> dict[str, Any]:
    picture = _take_picture()
    requests = _open_requests(picture)
    return {
        "notice": notice_of(picture.engines) if picture.has_redis else NO_REDIS,
        "engines": [_engine(status) for status in picture.engines],
        "requests": requests,
        "num_running": sum(1 for request in requests if request["is_running"]),
        "num_waiting": sum(1 for request in requests if not request["is_running"]),
    }


def _take_picture() -> Picture:
    client = get_client()
    try:
        engines, waiting = client.engines(), client.waiting()
    except EngineUnavailable:
        return Picture(has_redis=False)
    return Picture(
        has_redis=True,
        engines=tuple(engines),
        rows={row.request_id: row for engine in engines for row in engine.rows},
        engine_of={row.request_id: engine.engine for engine in engines for row in engine.rows},
        places={request.request_id: request.position for request in waiting},
        loading=frozenset(
            model.name for engine in engines for model in engine.models if model.state == "loading"
        ),
    )


def _engine(status: wire.EngineStatus) -> dict[str, Any]:
    now = time.time()
    return {
        "name": status.engine,
        "pid": status.pid,
        "device": status.device,
        "is_stalled": is_stalled(status),
        "beat_age_seconds": beat_age_seconds(status, now=now),
        "uptime_seconds": max(0.0, now - status.started_at),
        "active_bytes": status.active_bytes,
        "pool_bytes": status.pool_bytes,
        "peak_bytes": status.peak_bytes,
        "process_bytes": status.process_bytes,
        "decode_tokens_per_second": status.decode_tokens_per_second,
        "prefill_tokens_per_second": status.prefill_tokens_per_second,
        "generated_tokens": status.generated_tokens,
        "models": [
            {
                "name": model.name,
                "state": model.state,
                "loaded_fraction": model.loaded_fraction,
                "weight_bytes": model.weight_bytes,
                "context_limit_tokens": model.context_limit_tokens,
                "detail": explanation(model.detail) if model.detail else "",
            }
            for model in status.models
        ],
    }


def _open_requests(picture: Picture) -> list[dict[str, Any]]:
    """At most MAX_REQUESTS, the oldest, in the order of `_order`."""
    generations = Generation.objects.open().select_related("user", "api_key").defer("request")
    requests = [_request(one, picture) for one in generations.order_by("created_at")[:MAX_REQUESTS]]
    return sorted(requests, key=_order)


def _request(generation: Generation, picture: Picture) -> dict[str, Any]:
    request_id = str(generation.pk)
    row, place = picture.rows.get(request_id), picture.places.get(request_id)
    return {
        "id": request_id,
        "person": str(generation.user),
        "key": generation.api_key.name if generation.api_key else "",
        "client": generation.client,
        "kind": generation.get_kind_display(),
        "model": generation.model_name,
        "engine": picture.engine_of.get(request_id, ""),
        "state": _state(generation, picture),
        "is_running": row is not None and row.state != "waiting",
        "place": place,
        "prompt_tokens": row.prompt_tokens if row else None,
        "computed_tokens": row.computed_tokens if row else None,
        "cached_tokens": row.cached_tokens if row else None,
        "prefix": _prefix(row),
        "output_tokens": row.output_tokens if row else None,
        "age_seconds": max(0.0, (timezone.now() - generation.created_at).total_seconds()),
    }


def _prefix(row: wire.RowStatus | None) -> str:
    """Where the prompt left the nearest stored prefix, and why no more of that was used."""
    if row is None or row.prefix is None or row.prefix.nearest_tokens <= row.cached_tokens:
        return ""
    return prefix_words(row.prefix.nearest_tokens, row.prefix.miss)


def _state(generation: Generation, picture: Picture) -> str:
    request_id = str(generation.pk)
    if generation.is_cancel_requested:
        return "stopping"
    if (row := picture.rows.get(request_id)) is not None:
        return row.state
    if (place := picture.places.get(request_id)) is not None:
        return f"queued, place {place}"
    return "waits for its model" if generation.model_name in picture.loading else "accepted"


def _order(request: dict[str, Any]) -> tuple[bool, bool, int, float]:
    """Running, then waiting in an engine, then the queue by place; the oldest first."""
    is_in_engine = request["output_tokens"] is not None
    place = request["place"] or 0
    return not request["is_running"], not is_in_engine, place, -request["age_seconds"]

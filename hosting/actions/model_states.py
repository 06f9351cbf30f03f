"""What the living engines have of each model: in memory or not, with how many requests."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from engine import wire
from hosting.actions.heartbeats import heartbeats

_BEST_LAST = ("failed", "loading", "loaded")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeenModel:
    """`state` is loading, loaded or failed; `detail` why it failed. With several engines it is the
    best of them, and the requests of all. `loaded_fraction` is of a load."""

    state: str
    detail: str = ""
    num_requests: int = 0
    is_batchable: bool = True
    loaded_fraction: float | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0


def states_in_engines() -> dict[str, str]:
    """loaded, loading or failed by model name; with several engines the best of them."""
    return {name: seen.state for name, seen in seen_models(heartbeats()).items()}


def seen_models(engines: Iterable[wire.EngineStatus]) -> dict[str, SeenModel]:
    """By name; who is not there is not in memory."""
    engines = list(engines)
    models = [model for engine in engines for model in engine.models]
    models.sort(key=lambda model: _BEST_LAST.index(model.state))
    requests = Counter(row.model for engine in engines for row in engine.rows)
    return {
        model.name: SeenModel(
            state=model.state,
            detail=model.detail,
            num_requests=requests[model.name],
            is_batchable=model.is_batchable,
            loaded_fraction=model.loaded_fraction,
            drafted_tokens=sum(one.drafted_tokens for one in models if one.name == model.name),
            accepted_tokens=sum(one.accepted_tokens for one in models if one.name == model.name),
        )
        for model in models
    }

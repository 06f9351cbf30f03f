"""Which models the living engines have in memory."""

from __future__ import annotations

from hosting.engine_client import EngineUnavailable, get_client

_BEST_LAST = ("failed", "loading", "loaded")


def states_in_engines() -> dict[str, str]:
    """loaded, loading or failed by model name; with several engines the best of them."""
    try:
        engines = get_client().engines()
    except EngineUnavailable:
        return {}
    models = [model for engine in engines for model in engine.models]
    models.sort(key=lambda model: _BEST_LAST.index(model.state))
    return {model.name: model.state for model in models}

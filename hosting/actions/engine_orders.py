"""What administrators ask of engines while they run: load, unload, forget prefixes, a memory limit.

Orders about models go to the engines that are up. Raises EngineUnavailable when Redis is away; a
memory limit is a row, and is told later.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from accounts import audit
from accounts.models import User
from engine import wire
from hosting.actions.hosted_models import publish_on_commit
from hosting.actions.memory_limits import set_memory_limit
from hosting.engine_client import get_client
from hosting.models import HostedModel


def load_model(model: HostedModel) -> None:
    get_client().load_model(model.name)


def unload_model(model: HostedModel) -> None:
    get_client().unload_model(model.name)


def reload_model(model: HostedModel) -> None:
    unload_model(model)
    load_model(model)


def clear_memory_prefixes(model: HostedModel) -> None:
    get_client().clear_cache(model.name, wire.CacheTier.MEMORY)


def clear_disk_prefixes(model: HostedModel) -> None:
    get_client().clear_cache(model.name, wire.CacheTier.DISK)


def clear_prefixes(
    model_names: Sequence[str], tier: wire.CacheTier, *, by: User, address: str
) -> None:
    """By name: engines may keep prefixes of models that are registered no more."""
    for name in model_names:
        get_client().clear_cache(name, tier)
        audit.record(f"model.clear_{tier}", actor=by, address=address, target=name)


def change_memory_limit(engine: str, limit_bytes: int | None, *, by: User, address: str) -> None:
    """None: what the engine started with."""
    with transaction.atomic():
        before = set_memory_limit(engine, limit_bytes)
        audit.record(
            "memory.limit",
            actor=by,
            address=address,
            target=engine,
            before={"limit_bytes": before},
            after={"limit_bytes": limit_bytes},
        )
        publish_on_commit()

"""What a model takes with its settings, beside what it may have on the engines that are alive.

Read from the model's config.json by the engine's own formula; nothing is loaded.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine import wire
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.plan import MemoryPlan, plan_memory
from engine.sizing.shape import Shape, read_shape
from engine.sizing.text_config import DEFAULT_CONTEXT_TOKENS
from hosting.models import HostedModel


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The engine with the most memory: its limit, what other models keep there for good, and what
    it says of this one, or where it does not know this one how it computes others."""

    limit_bytes: int
    pinned_bytes: int
    memory: wire.ModelMemory | None
    numbers: wire.ModelMemory | None


def shape_of(model: HostedModel) -> Shape:
    """Raises UnreadableConfig."""
    return read_shape(Path(model.path))


def place_of(model: HostedModel, beats: list[wire.EngineStatus]) -> Place | None:
    """None while no engine tells of its memory."""
    known = [beat.memory for beat in beats if beat.memory is not None]
    if not known:
        return None
    status = max(known, key=lambda one: one.limit_bytes)
    others = [one for one in status.models if one.name != model.name]
    memory = next((one for one in status.models if one.name == model.name), None)
    return Place(
        limit_bytes=status.limit_bytes,
        pinned_bytes=sum(one.weight_bytes for one in others if one.is_pinned),
        memory=memory,
        numbers=memory or next(iter(others), None),
    )


def plan_of(model: HostedModel, place: Place | None) -> MemoryPlan:
    """With all rows of the model at its context limit. Raises UnreadableConfig."""
    shape = shape_of(model)
    memory = place.memory if place else None
    is_generating = model.kind == HostedModel.Kind.GENERATE
    return plan_memory(
        Estimate(shape, _numbers(model, place), correction=memory.correction if memory else None),
        weight_bytes=memory.weight_bytes if memory else model.weight_bytes,
        num_rows=model.max_rows if is_generating else 0,
        row_tokens=context_of(model, shape),
        slice_tokens=model.slice_tokens,
        ceiling_bytes=_ceiling_bytes(model, place),
    )


def context_of(model: HostedModel, shape: Shape) -> int:
    return model.context_limit_tokens or shape.context_limit_tokens or DEFAULT_CONTEXT_TOKENS


def _numbers(model: HostedModel, place: Place | None) -> Numbers:
    """How the engine computes; as GPUs do while none is alive."""
    known = place.numbers if place else None
    return Numbers(
        compute_bytes=known.compute_bytes if known else 2,
        may_fuse=known.may_fuse if known else True,
        kv_bits=model.kv_bits,
        together_bytes=known.together_bytes if known else 0,
    )


def _ceiling_bytes(model: HostedModel, place: Place | None) -> int | None:
    """The model's own, or what the engine's limit leaves it beside pinned models."""
    if place is None:
        return model.memory_ceiling_bytes
    share = 1.0 if model.memory_share is None else model.memory_share
    own = model.memory_ceiling_bytes or place.limit_bytes
    return min(own, int(place.limit_bytes * share), place.limit_bytes - place.pinned_bytes)

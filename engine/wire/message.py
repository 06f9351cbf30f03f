"""What all messages and their parts are: frozen, compared by value, short on the wire."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec


class Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Fields that have their default are left out on the wire."""


class Message(Part, frozen=True, kw_only=True, tag=True):
    """A part that travels by itself: its class's name goes with it."""


P = TypeVar("P", bound=Part)


def replace(part: P, **changes: Any) -> P:
    """The same with other values in some fields."""
    return msgspec.structs.replace(part, **changes)


def as_dict(part: Part) -> dict[str, Any]:
    """All its fields by name, those with their default as well."""
    return msgspec.structs.asdict(part)

"""The events of a batch's or a benchmark's generation as they are stored, until they are used."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from engine import wire
from hosting.models import BatchAnswer, Generation


def store_events(generation: Generation, events: Sequence[wire.Event]) -> None:
    """In the transaction that closes the generation: what is paid can be written."""
    text = "\n".join(map(wire.encode, events))
    BatchAnswer.objects.create(generation=generation, events=zlib.compress(text.encode()))


def histories_of(ids: Sequence[str]) -> dict[str, list[wire.Event]]:
    """By id. Nothing of those that ended without an event."""
    rows = BatchAnswer.objects.filter(generation_id__in=ids)
    return {str(row.pk): _unpacked(bytes(row.events)) for row in rows}


def _unpacked(data: bytes) -> list[wire.Event]:
    return [wire.decode(line) for line in zlib.decompress(data).decode().split("\n") if line]

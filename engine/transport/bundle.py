"""Tokens that are drawn within a few milliseconds travel together.

A small model draws 300 tokens a second; a call, a message and a repaint for each would cost more
than the tokens. What a client waits for - the first token, the end, its place - never waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from engine import wire

INTERVAL_SECONDS = 0.015
MAX_TOKENS = 64  # in one event, however long Redis was away

Published = tuple[str, wire.Event]


class Haste(IntEnum):
    """How soon events go: with others, at once, or before the model thread does anything else."""

    NONE = 0
    AT_ONCE = 1
    FIRST = 2


class Urgency:
    """What somebody waits for: everything but a Delta that has some before it; most of all the
    first. Model thread's."""

    def __init__(self) -> None:
        self._streaming: set[str] = set()

    def forget(self, request_id: str) -> None:
        """It was taken away, or comes anew."""
        self._streaming.discard(request_id)

    def of(self, events: Sequence[Published]) -> tuple[Haste, list[str]]:
        """And whose events are in haste."""
        haste, streaming, request_ids = Haste.NONE, self._streaming, []
        for request_id, event in events:
            if isinstance(event, wire.Delta):
                if request_id in streaming:
                    continue
                haste = Haste.FIRST
                streaming.add(request_id)
            else:
                haste = max(haste, Haste.AT_ONCE)
                if isinstance(event, wire.TERMINAL_EVENTS):
                    streaming.discard(request_id)
            request_ids.append(request_id)
        return haste, request_ids


def bundled(events: Iterable[Published]) -> list[Published]:
    """The same events, neighbouring Deltas of a request as one where nothing is lost by it.

    The order within a request stays; between requests there is none.
    """
    bundles: list[Published] = []
    place_of: dict[str, int] = {}
    for request_id, event in events:
        place = place_of.get(request_id)
        if place is not None and _may_join(bundles[place][1], event):
            bundles[place] = (request_id, _joined(bundles[place][1], event))
        else:
            place_of[request_id] = len(bundles)
            bundles.append((request_id, event))
    return bundles


def _may_join(before: wire.Event, event: wire.Event) -> bool:
    if not isinstance(before, wire.Delta) or not isinstance(event, wire.Delta):
        return False
    has_more = before.logprobs or event.logprobs or before.tool_call or event.tool_call
    has_room = len(before.token_ids) + len(event.token_ids) <= MAX_TOKENS
    return before.channel == event.channel and has_room and not has_more


def _joined(before: wire.Event, event: wire.Event) -> wire.Delta:
    assert isinstance(before, wire.Delta) and isinstance(event, wire.Delta)
    return wire.replace(
        before, text=before.text + event.text, token_ids=before.token_ids + event.token_ids
    )

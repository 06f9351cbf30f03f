"""Lines of an event stream: data, named events, comments. What is in them it does not know."""

from __future__ import annotations

import json
from typing import Any

from engine import wire

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Readers that split lines as Python does end one here; JSON escapes the others itself
_LINE_ENDS = {0x85: r"\u0085", 0x2028: r"\u2028", 0x2029: r"\u2029"}


def data(body: dict[str, Any]) -> str:
    text = _to_json(body)
    return f"data: {text if text.isascii() else text.translate(_LINE_ENDS)}\n\n"


def named(body: dict[str, Any]) -> str:
    """An event that is named as its `type` says."""
    return f"event: {body['type']}\n{data(body)}"


def comment(text: str) -> str:
    return f": {text}\n\n"


def progress(event: wire.Event) -> str | None:
    """How far a waiting request is, in words; None for an event that tells nothing of that."""
    match event:
        case wire.Queued():
            return f"queued {event.position}"
        case wire.Loading():
            return f"loading {event.fraction:.0%}"
        case wire.Prefilled():
            return f"prefill {event.done_tokens}/{event.total_tokens}"
        case wire.Paused():
            return "waiting for memory"
    return None

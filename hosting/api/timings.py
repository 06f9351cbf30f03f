"""How long the parts of an answer took, over all its choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine import wire


def timings_of(finished: Sequence[wire.Finished]) -> dict[str, Any]:
    """Seconds, of the choice that took longest."""
    timings = [event.timings for event in finished]
    first_tokens = [one.ttft_seconds for one in timings if one.ttft_seconds is not None]
    return {
        "queued_seconds": max((one.queued_seconds for one in timings), default=0.0),
        "ttft_seconds": max(first_tokens, default=None),
        "decode_seconds": max((one.decode_seconds for one in timings), default=0.0),
    }


def timing_headers(finished: Sequence[wire.Finished], *, total_seconds: float) -> dict[str, str]:
    """For an answer in one piece."""
    timings = timings_of(finished)
    return {
        "openai-processing-ms": str(round(total_seconds * 1000)),
        "x-queue-ms": str(round(timings["queued_seconds"] * 1000)),
        "x-ttft-ms": str(round((timings["ttft_seconds"] or 0) * 1000)),
        "x-cached-tokens": str(finished[0].usage.cached_tokens),
    }

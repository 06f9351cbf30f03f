"""Presets of a model's pace: prompts and running answers share one device, and who comes first?"""

from __future__ import annotations

import dataclasses

from django.db import models


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PaceNumbers:
    """`stall_ms`: the longest that running answers wait for a piece of somebody's prompt.
    `decode_share`: the part of the time that they keep while prompts wait."""

    stall_ms: int
    decode_share: float


class Pace(models.TextChoices):
    THROUGHPUT = "throughput", "throughput: prompts first, most tokens per second"
    BALANCED = "balanced", "balanced: half of the time for running answers"
    INTERACTIVE = "interactive", "interactive: running answers first, short pauses"
    CUSTOM = "custom", "custom: the two numbers below"


PRESETS = {
    # Pieces of prompts are as large as they get: how long they take is no matter.
    Pace.THROUGHPUT: PaceNumbers(stall_ms=60_000, decode_share=0.0),
    Pace.BALANCED: PaceNumbers(stall_ms=250, decode_share=0.5),
    Pace.INTERACTIVE: PaceNumbers(stall_ms=100, decode_share=0.75),
}

"""What an encoder needs for one text: no caches, but all of its tokens at once in each layer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import read_shape
from engine.wire import RowNeeds

_LONGEST_TOKENS = 8192  # where a config names no limit


class EncoderEstimate(Estimate):
    """Attention scores grow with the square of the length: `needs` tells a line that is right for
    the longest text and too much for shorter ones."""

    def alone_bytes(self, num_tokens: int) -> int:
        return self.slice_bytes(num_tokens, 0)

    def needs(self) -> RowNeeds:
        longest = self.shape.context_limit_tokens or _LONGEST_TOKENS
        return RowNeeds(fixed_bytes=0, token_bytes=-(-self.alone_bytes(longest) // longest))


def encoder_estimate(folder: Path, numbers: Numbers) -> EncoderEstimate:
    """Raises UnreadableConfig."""
    return EncoderEstimate(dataclasses.replace(read_shape(folder), layers=()), numbers)

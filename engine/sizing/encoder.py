"""What an encoder needs for one text: no caches, but all of its tokens at once in each layer."""

from __future__ import annotations

import dataclasses

from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import Shape
from engine.wire import Correction, RowNeeds

_LONGEST_TOKENS = 8192  # where a config names no limit


class EncoderEstimate(Estimate):
    """Attention scores grow with the square of the length: `needs` tells a line that is right for
    the longest text and too much for shorter ones."""

    def __init__(self, shape: Shape, numbers: Numbers, *, correction: Correction | None = None):
        keeps_nothing = dataclasses.replace(shape, layers=())
        super().__init__(keeps_nothing, numbers, correction=correction)

    def alone_bytes(self, num_tokens: int) -> int:
        return self.slice_bytes(num_tokens, 0)

    def most_slice_tokens(self, room_bytes: int, *, context_tokens: int, at_most: int) -> int:
        """A long text is computed some layers at a time: fewer of them need no less."""
        return at_most

    def piece_bytes(self, num_tokens: int, context_tokens: int, *, of_tokens: int) -> int:
        """Likewise."""
        return self.alone_bytes(of_tokens)

    def needs(self) -> RowNeeds:
        longest = self.shape.context_limit_tokens or _LONGEST_TOKENS
        return RowNeeds(fixed_bytes=0, token_bytes=-(-self.alone_bytes(longest) // longest))

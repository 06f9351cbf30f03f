"""What reads a prompt's slices that have images in them, whatever the family.

It does not know weights nor files. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import mlx.core as mx
import numpy as np

from engine.core.images import Image
from engine.core.pixels import unpack
from engine.core.step import Slice
from engine.model.caches import Caches
from engine.sizing.images import Normalising

Looker = Callable[[Image], mx.array]  # to [tokens, D], computed
Tower = Callable[[mx.array], mx.array]  # normalised pixels [1, H, W, 3] to [tokens, D]


class Sight(Protocol):
    def read(self, one: Slice, caches: Caches) -> None:
        """Fill the caches of the slice's row."""
        ...


def looker(tower: Tower, normalising: Normalising) -> Looker:
    """What the tokens of an image are to the text model, once it is computed: the tower's memory is
    free again when the text model begins."""
    factor, mean, std = normalising.factor, normalising.mean, normalising.std

    def look(image: Image) -> mx.array:
        pixels = (unpack(image.pixels).astype(np.float32) * factor - mean) / std
        states = tower(mx.array(pixels[None]))
        mx.eval(states)
        if len(states) != image.num_tokens:
            raise ValueError(f"{image.num_tokens} tokens stand for {len(states)} of an image")
        return states

    return look


def with_images(x: mx.array, one: Slice, look: Looker) -> mx.array:
    """The states [1, n, D] of a slice's tokens, those of its images replaced."""
    for image in one.images:
        start, stop = max(image.start, one.start_tokens), min(image.stop, one.stop_tokens)
        seen = look(image)[start - image.start : stop - image.start]
        x[0, start - one.start_tokens : stop - one.start_tokens] = seen.astype(x.dtype)
    return x

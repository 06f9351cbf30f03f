"""What looks at images, layer by layer, and what reads slices with them, whatever the family.

It does not know weights nor files. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np

from engine.core.images import Image
from engine.core.pixels import unpack
from engine.core.step import Slice
from engine.model.caches import Caches
from engine.sizing.images import Normalising


class Tower(Protocol):
    """[1, H, W, 3] → begin → [1, patches, D] → each of the layers → end → [tokens, text D]"""

    @property
    def layers(self) -> Sequence[Callable[[mx.array], mx.array]]: ...
    def begin(self, pixels: mx.array) -> mx.array: ...
    def end(self, x: mx.array) -> mx.array: ...


class Look:
    """At one image. What is asked for is computed when the call returns: a tower's memory is free
    again when the text model begins."""

    def __init__(self, tower: Tower, image: Image, normalising: Normalising) -> None:
        self.image = image
        self._tower = tower
        self._layers = iter(tower.layers)
        pixels = unpack(image.pixels).astype(np.float32) * normalising.factor
        self._x = tower.begin(mx.array(((pixels - normalising.mean) / normalising.std)[None]))

    def go_on(self, num_layers: int) -> None:
        for _, layer in zip(range(num_layers), self._layers, strict=False):
            self._x = layer(self._x)
            mx.async_eval(self._x)  # type: ignore[no-untyped-call]  # one layer's buffers at a time
        mx.eval(self._x)

    def states(self) -> mx.array:
        """What the image's tokens are to the text model: [tokens, D], once all is computed."""
        self.go_on(len(self._tower.layers))
        states = self._tower.end(self._x)
        mx.eval(states)
        if len(states) != self.image.num_tokens:
            raise ValueError(f"{self.image.num_tokens} tokens stand for {len(states)} of an image")
        return states


class Sight(Protocol):
    @property
    def tower_layers(self) -> int: ...
    def look(self, image: Image) -> Look: ...
    def read(self, one: Slice, states: mx.array, caches: Caches) -> None:
        """Fill the caches of the slice's row; `states` are of its image, all of them."""
        ...


class Looks:
    """Of the rows whose images are being looked at. `sight` None: the model reads text only."""

    def __init__(self, sight: Sight | None) -> None:
        self._sight = sight
        self._begun: dict[int, Look] = {}  # by row_id

    def __len__(self) -> int:
        return len(self._begun)

    @property
    def tower_layers(self) -> int:
        return 1 if self._sight is None else self._sight.tower_layers

    def forget(self, row_id: int) -> None:
        self._begun.pop(row_id, None)

    def go_on(self, one: Slice) -> None:
        """As far as the slice asks for."""
        self._look_of(one).go_on(one.tower_layers)

    def read(self, one: Slice, caches: Caches) -> None:
        """Fill the caches of the slice's row."""
        look = self._look_of(one)
        self.forget(one.row_ids[0])
        self._seeing.read(one, look.states(), caches)

    def _look_of(self, one: Slice) -> Look:
        """What was begun of the slice's image, or a new one."""
        (row_id,), (image,) = one.row_ids, one.images
        if (look := self._begun.get(row_id)) is None or look.image is not image:
            look = self._begun[row_id] = self._seeing.look(image)
        return look

    @property
    def _seeing(self) -> Sight:
        assert self._sight is not None, "intake lets no image through for a model that is blind"
        return self._sight


def with_image(x: mx.array, one: Slice, states: mx.array) -> mx.array:
    """The states [1, n, D] of a slice's tokens, those of its image replaced."""
    (image,) = one.images
    start, stop = max(image.start, one.start_tokens), min(image.stop, one.stop_tokens)
    seen = states[start - image.start : stop - image.start]
    x[0, start - one.start_tokens : stop - one.start_tokens] = seen.astype(x.dtype)
    return x

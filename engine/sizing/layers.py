"""What the caches of a group of equal layers keep. Elements, not bytes: the dtype is not known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FullLayers:
    """Keys and values of every token. `larger_elements`: of the larger of the two."""

    count: int
    token_elements: int
    larger_elements: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowLayers:
    """Keys and values of the last `window` tokens, and of the slice being computed."""

    count: int
    token_elements: int
    window: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateLayers:
    """A recurrent state: the same for a row of any length."""

    count: int
    row_elements: int


Layers = FullLayers | WindowLayers | StateLayers


class Sums:
    """What one row keeps in all of these layers together. `largest_layer_elements`: of a token, in
    the layer that keeps most of it; `largest_array_elements`: of keys or values alone."""

    def __init__(self, layers: Iterable[Layers]) -> None:
        known = list(layers)
        full = [one for one in known if isinstance(one, FullLayers)]
        states = (one for one in known if isinstance(one, StateLayers))
        self.windows = [one for one in known if isinstance(one, WindowLayers)]
        self.token_elements = sum(one.count * one.token_elements for one in full)
        self.state_elements = sum(one.count * one.row_elements for one in states)
        self.largest_layer_elements = max((one.token_elements for one in full), default=0)
        self.largest_array_elements = max((one.larger_elements for one in full), default=0)

"""What the caches of a group of equal layers keep. Elements, not bytes: the dtype is not known."""

from __future__ import annotations

import dataclasses


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

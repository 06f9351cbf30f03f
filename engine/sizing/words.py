"""Sizes in words: what is needed rounded up, what is allowed rounded down.

So a need that passes its limit by a little also reads as more than it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_MIB, _GIB = 1024**2, 1024**3


def needed_size(num_bytes: int) -> str:
    return _size(num_bytes, math.ceil)


def allowed_size(num_bytes: int) -> str:
    return _size(num_bytes, math.floor)


def _size(num_bytes: int, rounded: Callable[[float], int]) -> str:
    if num_bytes < _GIB:
        return f"{rounded(num_bytes / _MIB * 10) / 10:.1f} MiB"
    return f"{rounded(num_bytes / _GIB * 100) / 100:.2f} GiB"

"""glibc's heap in the engine: what a step has freed is there for the next one.

Slices and steps on a CPU allocate and free the same tens of megabytes again and again. Left to
itself glibc gives much of that back to the system each time, as the sizes of what was freed last
happen to say; new pages cost 1 to 6 us each, up to a sixth of a slice. After an unload the engine
gives back all of it (engine/model/machine.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

_OWN_MAPPING_BYTES = 32 * 2**20  # what is larger has pages of its own; glibc never goes above it
_KEPT_BYTES = 256 * 2**20  # free ones, at the heap's end


def engine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the engine's environment gains on Linux, but for what is chosen there. Other libraries
    than glibc do not look at it."""
    if not sys.platform.startswith("linux"):
        return {}
    usual = {
        "MALLOC_MMAP_THRESHOLD_": str(_OWN_MAPPING_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(_KEPT_BYTES),
    }
    return {name: environ.get(name, value) for name, value in usual.items()}
